"""The worth of a faster step to the loop."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixes.case_text import evidence_of
from trainperf.errors import NotMeasured
from trainperf.fixes.common.step import (
    bound_if_saved,
    gpu_busy,
    gpu_may_be_full,
    resident_seconds,
    saved_by,
    step_may_matter,
)
from trainperf.fixes.torch_step._step import gap_seconds, kernel_seconds, part_seconds
from trainperf.model import Evidence


def timed(real: object, resident: object, input: object) -> Evidence:
    return evidence_of(
        f"healthy | times.real = {real}; times.resident = {resident}; times.input = {input}"
    )


@pytest.mark.parametrize(
    ("times", "ratio", "bound"),
    [
        ((0.01, 0.01, 0.0001), 4.0, 4.0),  # a step that is all of the loop
        ((0.01, 0.01, 0.008), 10.0, 0.1 / 0.08),  # the loop never gets faster than its input
        ((0.01, 0.004, 0.006), 2.0, 0.1 / 0.08),  # without overlap only the step gets shorter
        ((0.1, 0.1, 0.01), 2.0, 0.1 / 0.095),  # a probe of 10 ms is of no more than 10 ms of it
        ((0.1, "missing", "missing"), 2.0, 0.1 / 0.095),
    ],
)
def test_a_faster_step_is_worth_what_the_input_leaves_of_it(
    times: tuple[object, object, object], ratio: float, bound: float
) -> None:
    probe = evidence_of(f"healthy | probes.some = {ratio}").probe("some")
    at = timed(*times)
    assert bound_if_saved(at, saved_by(at, probe)) == pytest.approx(bound)


@pytest.mark.parametrize(
    ("input", "bound"),
    [(0.11, 1.0), ("missing", 2.0)],  # noise makes it longer than the step; it caps nothing
)
def test_a_bound_is_at_least_one(input: object, bound: float) -> None:
    assert bound_if_saved(timed(0.1, 0.098, input), 0.05) == pytest.approx(bound)


def test_only_what_a_slower_machine_timed_shrinks() -> None:
    """The resident step, and probes beside it; not what was seen in real steps."""
    slow = timed(0.1, 0.125, 0.01)
    probe = evidence_of("healthy | probes.some = 2.0").probe("some")
    assert resident_seconds(slow) == pytest.approx(0.1)
    assert saved_by(slow, probe) == pytest.approx(0.005 / 1.25)
    assert bound_if_saved(slow, 0.05) == pytest.approx(2.0)


def test_a_bound_without_a_real_time_is_not_given() -> None:
    with pytest.raises(NotMeasured):
        bound_if_saved(timed("missing", 0.098, 0.01), 0.05)


@pytest.mark.parametrize(
    ("times", "may"),
    [
        ((0.1, "missing", 0.01), True),  # nothing tells that it does not
        ((0.1, 0.09, 0.01), True),
        ((0.1, 0.002, 0.099), False),
    ],
)
def test_a_step_may_matter_unless_the_loop_waits_for_its_input(
    times: tuple[object, object, object], may: bool
) -> None:
    assert step_may_matter(timed(*times)) is may


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


def test_a_probe_that_was_not_run_says_why() -> None:
    seen = evidence_of('healthy | probes.compiled = missing "tracing failed"')
    with pytest.raises(NotMeasured, match="tracing failed"):
        seen.probe("compiled")
