from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aws_fakes import LAPTOP, MEMORY, NITRO, imds, serving, slow

from kit.stubs import write
from trainperf.machine import inspect_machine
from trainperf.machine import instance as instance_module
from trainperf.machine.instance import ENDPOINT, NOT_AWS, identify
from trainperf.model import Price

FAR_TOO_LONG = 60.0
"""Seconds within which anything here must be over; the slow services take twice as long."""

CONFIG = "opt/ml/input/config/resourceconfig.json"


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An endpoint that nobody listens at, and no names in the environment."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "SM_"))]:
        monkeypatch.delenv(name)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv(ENDPOINT, url)
    return url


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for answers than a user would: this machine may be busy."""
    monkeypatch.setattr(instance_module, "SURE_S", 30.0)


def job(root: Path, **told: object) -> Path:
    return write(root, {CONFIG: json.dumps(told), **MEMORY})


# --------------------------------------------------------------------------- who tells


def test_a_laptop_is_not_asked_over_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        instance_module, "ask_metadata_service", lambda *_: pytest.fail("it was asked")
    )
    assert identify(write(tmp_path, LAPTOP), {}) == (None, NOT_AWS)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_the_firmware_stands_in_where_the_service_is_denied(
    tmp_path: Path, patient: None, status: int
) -> None:
    with serving(lambda request, body: (status, "")) as server:
        environment = {ENDPOINT: server.url, "AWS_REGION": "eu-north-1"}
        instance, reason = identify(write(tmp_path, NITRO), environment)
    assert instance is not None
    assert (instance.name, instance.region, reason) == ("g4dn.xlarge", "eu-north-1", "")
    assert instance.source == "firmware"


def test_a_training_job_is_told_by_its_files(tmp_path: Path) -> None:
    root = job(
        tmp_path, current_instance_type="ml.g5.xlarge", hosts=["algo-1", "algo-2"], current_host="a"
    )
    with serving(imds) as server:
        instance, _ = identify(root, {ENDPOINT: server.url, "AWS_REGION": "eu-west-3"})
    assert instance is not None
    assert (instance.service, instance.name, instance.hosts) == ("sagemaker", "ml.g5.xlarge", 2)
    assert (instance.region, instance.source) == ("eu-west-3", "SageMaker's resourceconfig.json")
    assert instance.type is not None
    assert instance.type.vcpus == 4
    assert server.asked == []


# ------------------------------------------------------------------------- in its time


def test_a_service_that_takes_half_a_minute_holds_nobody_up(
    tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path, NITRO | MEMORY)
    with serving(slow(600.0)) as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        began = time.monotonic()
        machine = inspect_machine(root)
        assert time.monotonic() - began < FAR_TOO_LONG
    assert machine.instance is None or machine.instance.source.startswith("firmware")


def test_the_price_is_the_one_that_is_given(tmp_path: Path, nobody: str) -> None:
    root = job(tmp_path, current_instance_type="ml.g5.xlarge", hosts=["algo-1"])
    machine = inspect_machine(root, price_per_hour=0.5)
    assert machine.price == Price(0.5, "--price-per-hour")
    assert inspect_machine(root).price is None
