"""What a GPU does in a step, and what it waits for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.common.step import gpu_busy, gpu_may_be_full
from trainperf.fixes.torch_step._step import (
    compute_seconds,
    gap_seconds,
    kernel_seconds,
    part_seconds,
)


def use(*gpus: dict[str, Any], phase: str = "resident") -> str:
    """The samples of the GPUs of a box, laid over those of a recording."""
    seen = [{"index": index, **gpu} for index, gpu in enumerate(gpus)]
    return f"use = {json.dumps([{'phase': phase, 'samples': 20, 'gpu': seen}])}"


ACTIVE = use({"sm_active": 0.3})
TRACED = "torch.trace = CUDA_TRACE"  # 90 ms of a step of about as many
SHORT = 'torch.trace.device = "cuda"; torch.trace.device_s = [0.018]; times.resident = 0.09'


@pytest.mark.parametrize(
    ("laid", "busy"),
    [
        ("", None),
        ("device = GPU", None),  # of operators of a CPU
        (f"device = ONE_OF_TWO; {use({'sm_active': None})}", None),
        # NVML's utilisation does not tell
        (f"device = ONE_OF_TWO; {use({'utilization_percent': 97.0})}", None),
        (f"device = LAST_OF_EIGHT; {ACTIVE}", None),  # nobody knows which cards are used
        (f"device = SLICES; {ACTIVE}", None),  # what is counted of a card is not its slice's
        (f"device = ONE_OF_TWO; {use({'sm_active': 0.0})}", 0.0),
        (f"device = ONE_OF_TWO; {use({'sm_active': 0.3}, {'sm_active': 0.9})}", 0.3),
        # kernels that were traced
        (SHORT, 0.2),
        (SHORT.replace("[0.018]", "[0.036, 0.045]"), 0.5),  # those of the busiest
        (SHORT.replace("0.018", "0.1"), 1.0),
        # the more of both is what a GPU did at least
        (f"{TRACED}; device = ONE_OF_TWO; {use({'sm_active': 1.0})}", 1.0),
    ],
)
def test_how_busy_a_gpu_was_is_known_by_its_kernels_and_its_own_count(
    laid: str, busy: float | None
) -> None:
    assert gpu_busy(evidence_of(f"torch_healthy | {laid}")) == pytest.approx(busy)


def test_kernels_that_were_traced_count_for_each_pass_of_a_step() -> None:
    twice = evidence_of(f"torch_healthy | {SHORT.rpartition(';')[0]}; torch.calls.backwards = 2")
    assert kernel_seconds(twice) == pytest.approx(0.036)


def test_a_gpu_has_no_gaps_that_nobody_saw() -> None:
    for laid in ("", "device = GPU", f"device = ONE_OF_TWO; {ACTIVE}"):
        assert gap_seconds(evidence_of(f"torch_healthy | {laid}")) == 0.0


def test_gaps_are_what_is_left_of_a_step_beside_its_kernels_and_updates() -> None:
    seen = evidence_of(f"torch_memmap_gpt | device = GPU; {TRACED}; times.resident = 0.12")
    assert gap_seconds(seen) == pytest.approx(0.03 - part_seconds(seen, "optimizer"))
    apart = evidence_of(f"torch_memmap_gpt | device = GPU; {TRACED}; torch.split = missing")
    assert gap_seconds(apart) == pytest.approx(apart.times.real - 0.09)


def test_there_are_no_gaps_while_gpm_saw_work() -> None:
    laid = f"device = ONE_OF_TWO; {TRACED}; {use({'sm_active': 0.9})}"
    seen = evidence_of(f"torch_memmap_gpt | {laid}")
    assert gap_seconds(seen) == pytest.approx(0.1 * seen.times.real)


@pytest.mark.parametrize(
    ("gpu", "full"),
    [
        ({}, False),
        ({"utilization_percent": 97.0}, True),  # it may be: NVML's is an upper bound
        ({"utilization_percent": 50.0}, False),
        ({"utilization_percent": 97.0, "sm_active": 0.3}, False),
    ],
)
def test_a_gpu_may_be_full_unless_something_tells(gpu: dict[str, float], full: bool) -> None:
    seen = evidence_of(f"torch_healthy | device = ONE_OF_TWO; {use(gpu, phase='real')}")
    assert gpu_may_be_full(seen, 0.9) is full


def test_waiting_for_a_gpu_is_computing() -> None:
    seconds = {"forward": 0.01, "backward": 0.02, "sync": 0.05}
    parts = json.dumps([{"name": name, "seconds": part} for name, part in seconds.items()])
    seen = f"torch_healthy | times.real = 0.1; torch.split = {parts}"
    assert compute_seconds(evidence_of(seen)) == pytest.approx(0.03)
    assert compute_seconds(evidence_of(f"{seen}; device = GPU")) == pytest.approx(0.08)
