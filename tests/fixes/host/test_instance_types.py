from __future__ import annotations

import json
from importlib.resources import files

import pytest

from trainperf.fixes.common.words import GIB, MB, MIB
from trainperf.fixes.host.instances import instance_type
from trainperf.model import InstanceType

TABLE = json.loads(files("trainperf").joinpath("data/aws_gpu_instances.json").read_text())


def known(name: str) -> InstanceType:
    found = instance_type(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", TABLE["ec2"])
def test_every_row_can_be_read(name: str) -> None:
    kind = known(name)
    assert kind.name == name
    assert kind.vcpus > 0
    assert kind.memory > GIB


@pytest.mark.parametrize("name", TABLE["ml_training"])
def test_every_name_of_sagemaker_that_has_a_row_is_that_of_ec2(name: str) -> None:
    row = TABLE["ml_training"][name]
    assert instance_type(name) == (None if row is None else instance_type(row))


def test_an_instance_of_another_kind_is_not_in_the_table() -> None:
    assert instance_type("m5.xlarge") is None
    assert instance_type("") is None


def test_the_units_are_bytes() -> None:
    kind = known("g5.xlarge")
    assert kind.memory == 16 * GIB
    assert kind.gpu_memory == 22888 * MIB
    assert kind.ebs_bytes_s == 87.5 * MB
    assert kind.nvme_bytes == 250 * 10**9


def test_a_part_of_a_gpu_is_no_gpu() -> None:
    kind = known("g6f.large")
    assert (kind.gpus, kind.gpu) == (0, "a part of an L4")
