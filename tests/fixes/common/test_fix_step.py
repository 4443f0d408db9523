"""The worth of a faster step to the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kit.evidence import GPU, evidence, machine, probe
from kit.torch_evidence import CALLS, torch_evidence, traced
from trainperf.errors import NotMeasured
from trainperf.fixes.common.step import (
    bound_by,
    bound_if_saved,
    gpu_busy,
    gpu_may_be_full,
    step_may_matter,
)
from trainperf.fixes.torch_step._lookers import gap_seconds
from trainperf.fixes.torch_step._step import kernel_seconds
from trainperf.model import CudaDevice, Evidence, Gpu, Missing, PhaseUse


def test_a_step_that_is_all_of_the_loop_gives_the_whole_ratio() -> None:
    seen = evidence(real=0.1, resident=0.1, input=0.001)
    assert bound_by(seen, probe(4.0)) == pytest.approx(4.0)


def test_the_loop_never_gets_faster_than_its_input() -> None:
    seen = evidence(real=0.1, resident=0.1, input=0.08)
    assert bound_by(seen, probe(10.0)) == pytest.approx(0.1 / 0.08)


def test_without_overlap_only_the_step_gets_shorter() -> None:
    seen = evidence(real=0.1, resident=0.04, input=0.06)
    assert bound_by(seen, probe(2.0)) == pytest.approx(0.1 / 0.08)


def test_a_bound_is_at_least_one_where_noise_makes_the_input_longer_than_the_step() -> None:
    assert bound_if_saved(evidence(real=0.1, input=0.11), 0.05) == 1.0


def test_an_input_that_was_not_measured_caps_nothing() -> None:
    assert bound_if_saved(evidence(real=0.1, input=None), 0.05) == pytest.approx(2.0)


def test_a_bound_without_a_real_time_is_not_given() -> None:
    with pytest.raises(NotMeasured):
        bound_if_saved(evidence(real=None), 0.05)


def test_a_probe_stands_in_for_a_resident_time_that_was_not_taken() -> None:
    seen = evidence(real=0.1, resident=None, input=None)
    assert bound_by(seen, probe(2.0)) == pytest.approx(0.1 / 0.095)


def test_a_step_may_matter_where_nothing_tells_that_it_does_not() -> None:
    assert step_may_matter(evidence(resident=None))
    assert step_may_matter(evidence(real=0.1, resident=0.09, input=0.01))
    assert not step_may_matter(evidence(real=0.1, resident=0.002, input=0.099))


TWO = tuple(Gpu(index, GPU.name) for index in range(2))


def sampled_as(*gpus: dict[str, Any], phase: str = "resident", **fields: Any) -> Evidence:
    """One of two GPUs is used, the first; `gpus` are their samples."""
    seen = tuple({"index": index, **one} for index, one in enumerate(gpus))
    fields.setdefault("machine", machine(gpus=TWO))
    return torch_evidence(device=GPU, use=(PhaseUse(phase, 20, gpu=seen),), **fields)


def test_how_busy_a_gpu_was_is_not_known_of_one_that_nobody_asked() -> None:
    assert gpu_busy(evidence()) is None
    assert gpu_busy(torch_evidence(device=GPU)) is None
    assert gpu_busy(sampled_as({"sm_active": None})) is None
    assert gpu_busy(sampled_as({"sm_active": 0.0})) == 0.0


def test_nvmls_utilisation_does_not_tell_how_busy_a_gpu_was() -> None:
    assert gpu_busy(sampled_as({"utilization_percent": 97.0})) is None
    assert gpu_busy(sampled_as({"utilization_percent": 3.0})) is None


def test_the_gpus_that_the_training_does_not_use_do_not_count() -> None:
    assert gpu_busy(sampled_as({"sm_active": 0.3}, {"sm_active": 0.9})) == pytest.approx(0.3)


def test_gpus_of_which_it_is_not_known_which_are_used_do_not_count() -> None:
    unknown = replace(GPU, gpus=(CudaDevice(0, GPU.name),))
    seen = replace(sampled_as({"sm_active": 0.3}), device=unknown)
    assert gpu_busy(seen) is None


def test_what_is_counted_of_a_card_is_not_what_its_slice_does() -> None:
    divided = (replace(TWO[0], mig=True),)
    assert gpu_busy(sampled_as({"sm_active": 0.3}, machine=machine(gpus=divided))) is None


def test_kernels_that_were_traced_count_for_each_pass_of_a_step() -> None:
    once = torch_evidence(device=GPU, torch={"trace": traced(0.2)})
    assert gpu_busy(once) == pytest.approx(0.2)
    twice = replace(CALLS, backwards=2.0)
    seen = torch_evidence(device=GPU, calls=twice, torch={"trace": traced(0.2)})
    assert gpu_busy(seen) == pytest.approx(0.4)
    assert kernel_seconds(seen) == pytest.approx(0.4 * 0.098)


def test_of_several_gpus_the_busiest_is_as_busy_as_its_own_kernels() -> None:
    both = replace(traced(0.9), device_s=(0.4 * 0.098, 0.5 * 0.098))
    seen = torch_evidence(device=GPU, torch={"trace": both})
    assert gpu_busy(seen) == pytest.approx(0.5)


def test_the_more_of_what_was_traced_and_counted_is_what_a_gpu_did_at_least() -> None:
    seen = sampled_as({"sm_active": 0.6}, torch={"trace": traced(0.2)})
    assert gpu_busy(seen) == pytest.approx(0.6)
    assert gpu_busy(sampled_as({"sm_active": 0.1}, torch={"trace": traced(1.4)})) == 1.0


def test_operators_of_a_cpu_say_nothing_of_a_gpu() -> None:
    on_host = replace(traced(0.9), device="cpu")
    assert gpu_busy(torch_evidence(device=GPU, torch={"trace": on_host})) is None


def test_a_gpu_has_no_gaps_that_nobody_saw() -> None:
    assert gap_seconds(torch_evidence()) == 0.0
    assert gap_seconds(torch_evidence(device=GPU)) == 0.0
    assert gap_seconds(sampled_as({"sm_active": 0.3, "utilization_percent": 30.0})) == 0.0


def test_gaps_are_what_is_left_of_a_step_beside_its_kernels_and_updates() -> None:
    seen = torch_evidence(device=GPU, torch={"trace": traced(0.5)}, split=Missing("not"))
    assert gap_seconds(seen) == pytest.approx(0.049)
    with_updates = torch_evidence(device=GPU, torch={"trace": traced(0.5)})
    assert gap_seconds(with_updates) == pytest.approx(0.049 - 0.005)


def test_there_are_no_gaps_while_gpm_saw_work() -> None:
    seen = sampled_as({"sm_active": 0.9}, torch={"trace": traced(0.5)})
    assert gap_seconds(seen) == pytest.approx(0.1 * 0.098)


@pytest.mark.parametrize(
    ("use", "full"),
    [
        ({}, False),
        ({"utilization_percent": 97.0}, True),  # it may be: NVML's is an upper bound
        ({"utilization_percent": 50.0}, False),
        ({"utilization_percent": 97.0, "sm_active": 0.3}, False),
    ],
)
def test_a_gpu_may_be_full_unless_something_tells(use: dict[str, float], full: bool) -> None:
    assert gpu_may_be_full(sampled_as(use, phase="real"), 0.9) is full


def test_a_probe_that_was_not_run_says_why() -> None:
    seen = evidence(probes={"compiled": Missing("tracing failed")})
    with pytest.raises(NotMeasured, match="tracing failed"):
        seen.probe("compiled")
