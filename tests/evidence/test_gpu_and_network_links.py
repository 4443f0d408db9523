"""What the exchange of a job goes over: what connects its GPUs, or the network of its hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixes.boxes import box, instance
from fixes.case_text import evidence_of
from trainperf.evidence.exchange import linked
from trainperf.model import Instance, Link, Machine, Parallel

JOB = "ddp_large_gradients"
NVLINK = Link("NVLink", 450e9, "NVML: 18 NVLink 4 links")
P4D = instance("p4d.24xlarge")


def job(laid: str = "") -> Parallel:
    return evidence_of(f"{JOB} | {laid}" if laid else JOB).parallel


# ------------------------------------------------------------------------------- GPUs

GPUS = 'parallel.processes[0].device = "cuda:0"; parallel.processes[1].device = "{}"'


def on_gpus(second: str = "8 × NVIDIA H100 80GB HBM3") -> Parallel:
    """A job that exchanges by NCCL; the recorded one has gloo and CPUs.

    Its devices are named as a rank names its own, and as a process names those it sees.
    """
    found = job(GPUS.format(second))
    assert found.exchange is not None
    return replace(found, exchange=replace(found.exchange, backend="nccl"))


@pytest.mark.parametrize(
    "other",
    [
        replace(on_gpus(), hosts=2),
        replace(on_gpus(), absent=(2,), expected=3),
        on_gpus("CPU"),
        on_gpus("2 logical CPUs"),
        on_gpus(""),
        job(GPUS.format("cuda:1")),
        replace(on_gpus(), exchange=None),
    ],
    ids=["hosts", "absent", "CPU", "logical", "unknown", "gloo", "no exchange"],
)
def test_a_job_that_exchanges_otherwise_is_left_alone(other: Parallel) -> None:
    assert linked(other, NVLINK, box()) is other


@pytest.mark.parametrize("link", [NVLINK, None])
def test_ranks_on_gpus_of_one_host_exchange_over_what_connects_these(link: Link | None) -> None:
    found = linked(on_gpus(), link, box())
    assert found is not None
    assert found.exchange is not None
    assert found.exchange.link == link
    assert linked(None, link, box()) is None


# ------------------------------------------------------------------------------ hosts

TWO_HOSTS = "parallel.hosts = 2; parallel.expected = 16"


@pytest.mark.parametrize(("name", "kind"), [("p4d.24xlarge", "EFA"), ("g5.xlarge", "network")])
def test_hosts_exchange_over_the_network_of_their_instances(name: str, kind: str) -> None:
    found = linked(job(TWO_HOSTS), NVLINK, instance(name))
    assert found is not None
    assert found.exchange is not None
    assert found.exchange.link is not None
    assert found.exchange.link.kind == kind


def of_type(**fields: object) -> Machine:
    assert P4D.instance is not None
    assert P4D.instance.type is not None
    return box(instance=Instance("ec2", "x", replace(P4D.instance.type, **fields)))


@pytest.mark.parametrize("machine", [box(), instance("x9.new"), of_type(network_bytes_s=None)])
def test_what_is_not_known_is_no_link(machine: Machine) -> None:
    ours = job(TWO_HOSTS)
    assert linked(ours, NVLINK, machine) is ours


def test_one_host_does_not_exchange_over_its_network() -> None:
    alone = job()
    assert linked(alone, NVLINK, P4D) is alone
