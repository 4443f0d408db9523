"""The report of how busy the machine was."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from fixes.cases.common.cases import GIB
from reporters.samples_observed import INPUT_BOUND
from reporters.samples_parallel import SYNC
from trainperf.model import CudaDevice, Device, Diagnosis, Gpu, PhaseUse
from trainperf.report.document import Page, Section
from trainperf.report.sections.devices import devices
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper


def said(read_bytes_s: float | None) -> str:
    return printed(
        replace(INPUT_BOUND, utilization=(PhaseUse("real", 24, 1.1, read_bytes_s=read_bytes_s),))
    )


def printed(diagnosis: Diagnosis) -> str:
    file = io.StringIO()
    paper = Paper(Console(file=file, width=100, force_terminal=False, color_system=None))
    page = Page()
    devices(diagnosis, page)
    write(Section("", tuple(page.blocks)), paper)
    paper.print()
    return file.getvalue()


@pytest.mark.parametrize("rate", [None, 0.0, 735.0, 21e3])
def test_a_trickle_from_the_disk_is_not_spoken_of(rate: float | None) -> None:
    assert "busy" in said(rate)
    assert "reading" not in said(rate)


def test_what_is_read_from_the_disk_is_said() -> None:
    assert "reading 2.00 MiB/s" in said(2 * 1024**2)


def on_gpus(*gpus: CudaDevice, **fields: Any) -> str:
    """Two GPUs, of which NVML sampled both; CUDA shows the given ones."""
    seen = tuple(
        {"index": index, "utilization_percent": 90.0, "memory_used_peak": 3 * GIB}
        for index in range(2)
    )
    cards = tuple(Gpu(index, "NVIDIA A10G", memory_total=24 * GIB) for index in range(2))
    return printed(
        replace(
            INPUT_BOUND,
            utilization=(PhaseUse("real", 24, gpu=seen),),
            machine=replace(INPUT_BOUND.machine, gpus=cards),
            device=Device("GPU", "NVIDIA A10G", 1, gpus),
            **fields,
        )
    )


ONE_OF_TWO = (CudaDevice(0, "A", index=1), CudaDevice(1, "A", used=False, index=0))


def test_where_it_is_not_known_which_gpus_are_used_all_are_told() -> None:
    for unknown in ((), (CudaDevice(0, "A"),)):
        assert on_gpus(*unknown).count("a kernel ran 90 %") == 2


def test_a_rank_says_nothing_of_the_gpus_that_others_may_use() -> None:
    assert on_gpus(*ONE_OF_TWO, parallel=SYNC.parallel).count("a kernel ran 90 %") == 2


def test_a_gpu_that_the_training_does_not_use_is_told_as_that() -> None:
    lines = on_gpus(*ONE_OF_TWO).splitlines()
    assert any("GPU 0  not used by this training" in line for line in lines)
    assert any("GPU 1  a kernel ran 90 %" in line for line in lines)


def test_memory_is_set_against_that_of_the_slice() -> None:
    cut = CudaDevice(0, "A MIG 1g.6gb", index=1, memory_total=6 * GIB, mig=True)
    assert "memory 3.00 GiB (50 %)" in on_gpus(cut)
    assert "memory 3.00 GiB (12 %)" in on_gpus(*ONE_OF_TWO)
