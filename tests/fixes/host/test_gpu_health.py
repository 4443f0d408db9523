"""Promises of the fixes of a GPU's health, and their ground."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fixes.boxes import CARDS
from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import shown_findings
from trainperf.fixes.host.cards import version
from trainperf.model import CudaDevice, Evidence, Finding

CPU = evidence_of("emulated_transfer")
"""A step of 51 ms that waits for next to nothing."""
HOT = {"sm_clock_mhz": 855, "throttle_shares": {"hardware thermal slowdown": 0.9}}


def found(name: str, case: Evidence) -> Finding:
    (finding,) = asked(name, case)
    return finding


def asked(name: str, case: Evidence) -> tuple[Finding, ...]:
    return shown_findings(case, among=[by_id()[name]])


def on_gpu(
    use: dict[str, Any], recording: str = "emulated_transfer", phase: str = "resident"
) -> Evidence:
    """The recording on one A10G that was used like that."""
    samples = json.dumps([{"index": 0, "samples": 20, **use}])
    return evidence_of(
        f"{recording} | device = GPU; machine.gpus = CARDS; use[{phase}].gpu = {samples}"
    )


def shared(**card: Any) -> Evidence:
    cards = json.dumps([{"index": 0, "name": "NVIDIA A10G", **card}])
    return evidence_of(f"emulated_transfer | device = GPU; machine.gpus = {cards}")


def test_a_throttled_gpu_promises_its_clock_and_no_more_than_the_input_gives() -> None:
    half = found("gpu_throttled", on_gpu(HOT))
    assert half.bound == pytest.approx(2.0)
    hidden = on_gpu(HOT, "emulated_hidden")
    times = hidden.times
    assert found("gpu_throttled", hidden).bound == pytest.approx(times.real / times.input)


def test_the_reason_given_most_often_is_named() -> None:
    shares = {"power brake": 0.2, "hardware slowdown": 0.6, "power cap": 1.0}
    finding = found("gpu_throttled", on_gpu({**HOT, "throttle_shares": shares}))
    assert finding.title == "GPU 0 (NVIDIA A10G) is slowed down: hardware slowdown"
    assert "power cap" not in finding.text


def test_a_shared_gpu_promises_at_most_the_turns_of_the_others() -> None:
    half = found("gpu_shared", shared(other_processes=1, busy_before=1.0))
    assert half.bound == pytest.approx(2.0)
    little = found("gpu_shared", shared(other_processes=3, busy_before=0.2))
    assert little.bound == pytest.approx(1.25)


def several(used: Sequence[int | None], *use: dict[str, Any], phase: str = "resident") -> Evidence:
    """Four GPUs, of which the training uses those; None for one of which nobody knows which."""
    case = on_gpu({}, phase=phase)
    name = CARDS[0].name
    cards = tuple(replace(CARDS[0], index=index) for index in range(4))
    shown = tuple(CudaDevice(place, name, index=index) for place, index in enumerate(used))
    seen = tuple({"samples": 20, **gpu, "index": index} for index, gpu in enumerate(use))
    return replace(
        case,
        machine=replace(case.machine, gpus=cards),
        device=replace(case.device, count=len(used), gpus=shown),
        use=(replace(case.phase(phase), gpu=seen),),
    )


def test_gpus_that_cannot_be_told_apart_are_not_judged() -> None:
    for unknown in (several([None], HOT), several([0, None], HOT, HOT), several([3], HOT), CPU):
        assert not asked("gpu_throttled", unknown)


def test_another_jobs_hot_gpu_is_not_this_runs_matter() -> None:
    assert not asked("gpu_throttled", several([1], HOT, {}, {}, {}))
    assert asked("gpu_throttled", several([0, 1], HOT, {}, {}, {}))


def test_a_version_is_its_first_two_numbers() -> None:
    assert version("12.4.1") == (12, 4)
    assert version("13") == (13, 0)
    assert version("") is version(None) is None
