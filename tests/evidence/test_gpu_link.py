"""The connection of GPUs is the link of a job that exchanges over it, and of no other."""

from __future__ import annotations

from typing import Any

import pytest

from kit.parallel_evidence import LOOPBACK, exchange, job, rank, ranks
from trainperf.evidence.exchange import with_gpu_link
from trainperf.model import Link, Parallel

NVLINK = Link("NVLink", 450e9, "NVML: 18 NVLink 4 links")


def on_gpus(**fields: Any) -> Parallel:
    made = {"processes": tuple(rank(number, device=f"cuda:{number}") for number in range(2))}
    return job(**{**made, "exchange": exchange(backend="nccl", link=None), **fields})


@pytest.mark.parametrize(
    "other",
    [
        on_gpus(hosts=2),
        on_gpus(absent=(2,), expected=3),
        on_gpus(processes=ranks(2, device="CPU")),
        on_gpus(processes=ranks(1, device="2 logical CPUs")),
        on_gpus(processes=(rank(0, device="cuda:0"), rank(1, device=""))),
        on_gpus(exchange=exchange(backend="gloo", link=None)),
        on_gpus(exchange=exchange(backend="nccl", link=LOOPBACK)),
        on_gpus(exchange=None),
    ],
    ids=["hosts", "absent", "CPU", "logical", "unknown", "gloo", "measured", "no exchange"],
)
def test_a_job_that_exchanges_otherwise_is_left_alone(other: Parallel) -> None:
    assert with_gpu_link(other, NVLINK) is other


def test_what_nothing_tells_stays_unknown() -> None:
    found = with_gpu_link(on_gpus(), None)
    assert found is not None
    assert found.exchange is not None
    assert found.exchange.link is None
    assert with_gpu_link(None, NVLINK) is None


@pytest.mark.parametrize("devices", [("cuda:0", "cuda:1"), ("8 × NVIDIA H100 80GB HBM3",)])
def test_ranks_on_gpus_of_one_host_exchange_over_what_connects_these(
    devices: tuple[str, ...],
) -> None:
    processes = tuple(rank(number, device=name) for number, name in enumerate(devices))
    found = with_gpu_link(on_gpus(processes=processes), NVLINK)
    assert found is not None
    assert found.exchange is not None
    assert found.exchange.link == NVLINK
