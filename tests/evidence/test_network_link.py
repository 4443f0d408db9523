"""The network of the instance as the link of a job that spans hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kit.evidence import machine
from kit.parallel_evidence import exchange, job
from trainperf.evidence.exchange import with_network_link
from trainperf.model import Instance, InstanceType, Link, Parallel

GIGABIT = 1e9 / 8
P4D = InstanceType(
    "p4d.24xlarge", 96, 1152 * 1024**3, network_bytes_s=400 * GIGABIT, efa=4, source="package data"
)
BOX = machine(instance=Instance("ec2", "p4d.24xlarge", P4D))


def two_hosts(**fields: Any) -> Parallel:
    return job(hosts=2, expected=16, exchange=exchange(backend="nccl", link=None), **fields)


def test_without_an_adapter_it_is_the_network():
    plain = replace(BOX, instance=Instance("ec2", "g5.xlarge", replace(P4D, efa=0)))
    found = with_network_link(two_hosts(), plain)
    assert found is not None
    assert found.exchange is not None
    assert found.exchange.link is not None
    assert found.exchange.link.kind == "network"


@pytest.mark.parametrize(
    "box",
    [
        machine(),
        machine(instance=Instance("ec2", "x9.new")),
        machine(instance=Instance("ec2", "x", replace(P4D, network_bytes_s=None))),
    ],
    ids=["no instance", "unknown type", "unknown network"],
)
def test_what_is_not_known_is_no_link(box):
    ours = two_hosts()
    assert with_network_link(ours, box) is ours


def test_one_host_and_a_link_that_is_known_are_left_alone():
    assert with_network_link(None, BOX) is None
    alone = job(hosts=1, exchange=exchange(link=None))
    assert with_network_link(alone, BOX) is alone
    known = job(hosts=2, exchange=exchange(link=Link("loopback", 1e9, "measured")))
    assert with_network_link(known, BOX) is known
