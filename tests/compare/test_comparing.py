"""Differences of two diagnoses: refusals, remarks, figures, findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reporters.samples import SAMPLES
from reporters.samples_observed import (
    CACHE,
    CPU_BOX,
    FAILED,
    GPU_BOX,
    INPUT_BOUND,
    PARALLEL_MAP,
    PARTIAL,
    TWO_GPUS,
)
from reporters.samples_tried import TRIED
from trainperf.compare import Change, Comparison, compare
from trainperf.model import (
    Diagnosis,
    Finding,
    Framework,
    Ignored,
    Instance,
    ReportedStage,
    Site,
    Verdict,
)
from trainperf.model.diagnosis import ReportedPart

A = INPUT_BOUND


def with_times(**changes: Any) -> Diagnosis:
    return replace(A, times=replace(A.times, **changes))


def with_machine(**changes: Any) -> Diagnosis:
    return replace(A, machine=replace(A.machine, **changes))


def with_loop(**changes: Any) -> Diagnosis:
    assert A.loop is not None
    return replace(A, loop=replace(A.loop, **changes))


def figure(comparison: Comparison, name: str) -> Change:
    return next(one for one in comparison.figures if one.name == name)


# ---------------------------------------------------------------------- nothing changed


@pytest.mark.parametrize("name", SAMPLES)
def test_a_diagnosis_has_nothing_different_from_itself(name: str) -> None:
    comparison = compare(SAMPLES[name], SAMPLES[name])
    assert not comparison.changed
    assert not comparison.remarks
    assert not comparison.machine
    assert not any(one.outside for one in comparison.figures)


@pytest.mark.parametrize("one", SAMPLES)
def test_any_two_diagnoses_can_be_compared(one: str) -> None:
    for other in SAMPLES.values():
        assert isinstance(compare(SAMPLES[one], other), Comparison)


@pytest.mark.parametrize("factor", [0.98, 1.0, 1.02])
def test_what_two_processes_of_one_script_differ_by_is_no_change(factor: float) -> None:
    before = with_times(noise=0.001)
    after = with_times(noise=0.001, real_s=0.138 * factor)
    assert figure(compare(before, after), "real step").outside is False


# ------------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("after_s", "noise", "outside"),
    [
        (0.152, 0.02, True),  # 0.1408 to 0.1352, 0.1490 to 0.1550
        (0.152, 0.05, False),  # 0.1449 to 0.1311, 0.1444 to 0.1596: they overlap
        (0.124, 0.02, True),
        (0.143, 0.02, False),
    ],
)
def test_a_time_changed_where_the_intervals_do_not_meet(
    after_s: float, noise: float, outside: bool
) -> None:
    row = figure(
        compare(with_times(noise=noise), with_times(real_s=after_s, noise=noise)), "real step"
    )
    assert row.outside is outside
    assert row.change == pytest.approx(after_s / 0.138 - 1)


def test_intervals_that_touch_are_not_apart() -> None:
    before = with_times(real_s=1.0, noise=0.25)
    after = with_times(real_s=1.6666666666666667, noise=0.25)  # 1.25 on both sides
    assert figure(compare(before, after), "real step").outside is False


def test_without_a_known_noise_a_tenth_each_way_is_assumed() -> None:
    before = with_times(noise=None)
    assert figure(compare(before, with_times(noise=None, real_s=0.16)), "real step").outside is (
        False
    )
    assert figure(compare(before, with_times(noise=None, real_s=0.18)), "real step").outside


def test_a_time_that_one_of_them_lacks_is_said_to_be_missing() -> None:
    row = figure(compare(A, with_times(resident_s=None)), "resident step")
    assert (row.after, row.change, row.outside) == (None, None, None)
    assert row.reason == "not measured in the second"
    row = figure(compare(with_times(resident_s=None), A), "resident step")
    assert row.reason == "not measured in the first"


def test_a_time_that_neither_has_is_no_row() -> None:
    before = with_times(host_s=None)
    assert "host work for a step" not in [one.name for one in compare(before, before).times]


def test_moments_between_epochs_shorter_than_a_step_are_never_a_change() -> None:
    assert A.between_epochs is not None
    before = replace(A, between_epochs=replace(A.between_epochs, seconds=0.0001))
    after = replace(A, between_epochs=replace(A.between_epochs, seconds=0.1))
    assert figure(compare(before, after), "between epochs").outside is False
    slow = replace(A, between_epochs=replace(A.between_epochs, seconds=9.0))
    assert figure(compare(before, slow), "between epochs").outside is True


def test_with_another_batch_size_samples_are_compared_and_steps_are_not() -> None:
    after = replace(
        with_loop(batch_size=64), times=replace(A.times, real_s=0.276, samples_per_s=231.9)
    )
    comparison = compare(A, after)
    assert comparison.basis == "samples"
    assert comparison.refusals == ()
    assert "from 32 to 64" in comparison.remarks[0]
    assert figure(comparison, "real step").outside is None
    assert "batch size" in figure(comparison, "real step").reason
    assert figure(comparison, "samples per second").outside is False
    assert [one.name for one in comparison.settings] == ["batch size"]


def test_a_batch_size_that_is_not_known_is_not_another_one() -> None:
    assert compare(A, with_loop(batch_size=None)).basis == "step"


# ----------------------------------------------------------------- stages, parts, shares


def test_stages_are_matched_by_name_though_their_lines_moved() -> None:
    moved = tuple(
        replace(
            one, where=None if one.where is None else replace(one.where, line=one.where.line + 9)
        )
        for one in A.stages
    )
    comparison = compare(A, replace(A, stages=moved))
    assert not comparison.changed
    assert [one.name for one in comparison.stages][2] == "map (load_image)"


def test_two_stages_of_one_name_are_matched_in_their_order() -> None:
    first, second = (ReportedStage("map", None, seconds, 0.5) for seconds in (0.1, 0.2))
    before = replace(A, stages=(first, A.stages[1], second))
    after = replace(before, stages=(first, replace(second, seconds_per_step=0.4)))
    rows = {one.name: one for one in compare(before, after).stages}
    assert rows["map"].outside is False
    assert rows["map 2"].outside is True
    assert rows["shuffle"].reason == "not measured in the second"


def test_a_part_of_the_step_that_grew_is_a_change() -> None:
    before = replace(A, step_parts=(ReportedPart("forward", 0.01, 0.5, 1.0),))
    after = replace(A, step_parts=(ReportedPart("forward", 0.02, 0.5, 1.0),))
    (row,) = compare(before, after).step_parts
    assert row.outside
    assert row.change == pytest.approx(1.0)


def test_utilisation_changes_by_more_than_a_few_hundredths_or_not_at_all() -> None:
    def at(share: float | None) -> Diagnosis:
        return replace(A, verdict=replace(A.verdict, utilization=share))

    assert figure(compare(at(0.9), at(0.86)), "utilisation").outside is False
    assert figure(compare(at(0.9), at(0.7)), "utilisation").outside is True
    assert figure(compare(at(0.9), at(None)), "utilisation").outside is None


# ----------------------------------------------------------------------------- findings


def test_findings_are_new_gone_changed_or_still_there() -> None:
    other = replace(CACHE, id="tf_interleave_parallel", title="Interleave", bound=1.3)
    before = replace(A, findings=(PARALLEL_MAP, CACHE), practices=())
    after = replace(A, findings=(replace(PARALLEL_MAP, bound=1.5), other), practices=())
    rows = [(one.id, one.state) for one in compare(before, after).findings]
    assert rows == [
        ("tf_interleave_parallel", "new"),
        ("tf_map_parallel", "changed"),
        ("tf_cache", "gone"),
    ]


def ignoring(*findings: Finding) -> Diagnosis:
    """The sample, of whose findings the source says to leave these out."""
    left = tuple(one for one in A.findings if one not in findings)
    comment = Site(f"{A.cwd}/train.py", 7)
    return replace(A, findings=left, ignored=tuple(Ignored(one, comment) for one in findings))


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        (A, ignoring(CACHE), "ignored"),
        (replace(A, findings=(PARALLEL_MAP,)), ignoring(CACHE), "ignored"),
        (ignoring(CACHE), A, "no longer ignored"),
        (ignoring(CACHE), ignoring(CACHE), None),
        (ignoring(CACHE), replace(A, findings=(PARALLEL_MAP,)), None),
    ],
)
def test_what_a_comment_leaves_out_is_ignored_and_not_gone(
    before: Diagnosis, after: Diagnosis, state: str | None
) -> None:
    states = {one.id: one.state for one in compare(before, after).findings}
    assert states.get(CACHE.id) == state
    assert states[PARALLEL_MAP.id] == "still"
    assert compare(before, after).changed is (state is not None)


@pytest.mark.parametrize(("old", "new"), [(3.2, 3.1), (1.05, 1.1), (None, None), (20.0, 30.0)])
def test_a_bound_that_varies_a_little_is_still_the_same_finding(
    old: float | None, new: float | None
) -> None:
    before = replace(A, findings=(replace(CACHE, bound=old),), practices=())
    after = replace(A, findings=(replace(CACHE, bound=new),), practices=())
    assert [one.state for one in compare(before, after).findings] == ["still"]


def test_trials_are_compared_where_both_made_some() -> None:
    assert compare(A, TRIED).trials == ()
    rows = compare(TRIED, replace(TRIED, trials=TRIED.trials[:1], stack=None)).trials
    assert rows[0].before == rows[0].after != ""
    assert rows[1].after == ""
    assert rows[-1].fix == "all kept"
    assert rows[-1].speedup_after is None


def test_another_bottleneck_is_a_change_and_other_figures_in_its_sentence_are_not() -> None:
    told = Verdict("input", "Input-bound: 3.1 times.", A.verdict.utilization)
    assert not compare(A, replace(A, verdict=told)).changed
    assert compare(A, replace(A, verdict=replace(told, bottleneck="model"))).changed


# --------------------------------------------------------------- machines and settings


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (with_machine(cpu_model="Intel Xeon"), "other processors: AMD EPYC 7R13 against Intel"),
        (with_machine(cores=4.0), "usable cores: 8 against 4"),
        (with_machine(cores=7.5), "usable cores: 8 against 7.5"),
        (replace(A, device=TWO_GPUS.device), "one trained on a CPU, the other on a GPU"),
        (with_loop(replicas=2), "another number of replicas: 1 against 2"),
        (replace(A, framework=Framework("torch", "2.13.0")), "other frameworks"),
        (FAILED, "no step was timed in the second run"),
    ],
)
def test_what_makes_times_say_nothing_is_refused(after: Diagnosis, says: str) -> None:
    (refusal,) = compare(A, after).refusals
    assert says in refusal
    assert compare(A, A).refusals == ()


@pytest.mark.parametrize("device", [{"name": "NVIDIA H100"}, {"count": 1}])
def test_other_gpus_are_refused(device: dict[str, Any]) -> None:
    after = replace(TWO_GPUS, device=replace(TWO_GPUS.device, **device))
    (refusal,) = compare(TWO_GPUS, after).refusals
    assert "other GPUs: 2 × NVIDIA A10G against" in refusal


def test_what_is_of_another_machine_is_called_neither_slower_nor_faster() -> None:
    slower = with_times(real_s=1.0)
    other = replace(slower, machine=replace(A.machine, cpu_model="another"))
    assert figure(compare(A, slower), "real step").outside is True
    step = figure(compare(A, other), "real step")
    assert (step.outside, step.reason) == (None, "of other circumstances")
    assert not any(one.outside for one in compare(A, other).figures)


def test_a_quota_that_rounds_differently_is_the_same_number_of_cores() -> None:
    assert compare(A, with_machine(cores=8.05)).refusals == ()


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (with_machine(hostname="runner-7"), "host: box before, runner-7 now"),
        (with_machine(python="3.13.1"), "Python: 3.12.3 before, 3.13.1 now"),
        (with_machine(memory_limit=8 * 1024**3), "memory limit: 16.0 GiB before, 8.0 GiB now"),
        (with_machine(driver="570.1"), "GPU driver: not known before, 570.1 now"),
        (with_machine(omp_num_threads="1"), "OMP_NUM_THREADS: not known before, 1 now"),
        (with_machine(instance=Instance("ec2", "m7a.xlarge")), "instance: not known before"),
        (
            replace(A, framework=replace(A.framework, version="2.22.0")),
            "framework: tensorflow 2.21.0, keras 3.15.1 before, tensorflow 2.22.0",
        ),
    ],
)
def test_what_may_explain_a_difference_is_remarked_and_refuses_nothing(
    after: Diagnosis, says: str
) -> None:
    comparison = compare(A, after)
    assert comparison.refusals == ()
    (remark,) = comparison.remarks
    assert says in remark
    assert comparison.changed


def test_other_arguments_are_a_difference_and_another_python_binary_is_none() -> None:
    after = replace(A, command=("/opt/python3.12", *A.command[1:-1], "60"))
    (difference,) = compare(A, after).settings
    assert (difference.name, difference.after) == ("arguments", "train.py --epochs 60")
    assert compare(A, replace(A, command=("/opt/python3.12", *A.command[1:]))).settings == ()


def test_a_name_that_is_no_text_is_the_same_saved_or_not() -> None:
    now = replace(A, script="\udce9.py", command=("python", "\udce9.py"))
    saved = replace(A, script="\\udce9.py", command=("python", "\\udce9.py"))
    assert compare(saved, now).settings == ()


def test_the_gpus_of_the_boxes_are_told_apart() -> None:
    rows = {one.name: one for one in compare(replace(A, machine=CPU_BOX),
                                             replace(A, machine=GPU_BOX)).machine}  # fmt: skip
    assert rows["GPUs"].after == "2 × NVIDIA A10G"
    assert rows["GPUs"].before == ""


def test_a_partial_run_can_be_compared() -> None:
    comparison = compare(A, PARTIAL)
    assert figure(comparison, "input for a step").after is None
    assert comparison.changed


# -------------------------------------------------------------------------- neighbours


def beside(others: float) -> Diagnosis:
    """The sample with so many cores kept busy by other programs while it trained."""
    uses = tuple(
        replace(one, cpu_cores=1.0, machine_cpu_cores=1.0 + others) for one in A.utilization
    )
    return replace(A, utilization=uses)


def test_other_programs_beside_a_run_are_remarked() -> None:
    comparison = compare(beside(1.4), beside(0.2))
    assert comparison.neighbours == ("other programs kept 1.4 cores busy beside the first run",)
    assert comparison.neighbours[0] in comparison.remarks
    assert compare(beside(0.2), beside(0.2)).neighbours == ()


def test_other_arguments_of_the_script_are_remarked() -> None:
    other = replace(A, command=(*A.command, "--big"))
    (remark,) = compare(A, other).remarks
    assert remark.startswith("arguments: ")
    assert remark.endswith("--big now")
