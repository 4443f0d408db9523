from dataclasses import replace
from typing import get_args

import pytest

from fixes.cases.common.cases import SITE, evidence, machine, measure, stage
from fixes.cases.common.torch_cases import split, torch_evidence
from fixes.cases.ranks._parallel_cases import exchange, parallel_evidence, rank
from recordings import FIT, recording
from trainperf.model import (
    BetweenEpochs,
    Ending,
    Gpu,
    Loop,
    Measure,
    Missing,
    Operator,
    PhaseUse,
    Site,
    StartUp,
    StepCalls,
    SyncPoint,
    Times,
    Trace,
)
from trainperf.model.torch.step import Part
from trainperf.report import assemble as report
from trainperf.report.assemble.parts import ORDER
from trainperf.report.sections.step import rates


def test_times_that_were_not_taken_are_none_and_not_zero():
    found = report.times(evidence(resident=None, input=None, host=None))
    assert found.real_s == 0.1
    assert (found.resident_s, found.input_s, found.host_s) == (None, None, None)
    assert set(found.spread) == {"real"}


def test_host_work_timed_in_slower_resident_steps_is_told_for_a_real_one():
    assert report.times(evidence(resident=0.09, host=0.03)).host_s == pytest.approx(0.03)
    assert report.times(evidence(resident=0.2, host=0.15)).host_s == pytest.approx(0.075)
    assert report.times(evidence(resident=0.2, host=0.4)).host_s == pytest.approx(0.1)


def test_samples_per_second_need_a_batch_size_and_a_step():
    assert report.times(evidence()).samples_per_s == 320.0
    assert report.times(evidence(loop=Loop("fit"))).samples_per_s is None
    assert report.times(evidence(real=None)).samples_per_s is None


def test_tokens_per_second_need_a_step_and_tokens():
    times = report.times(evidence(loop=Loop("fit", tokens=1000.0, real_tokens=250.0)))
    assert (times.tokens_per_s, times.real_tokens_per_s) == (10_000.0, 2500.0)
    assert list(rates(times)) == ["2,500 real tokens/s and 7,500 of padding"]
    assert list(rates(replace(times, real_tokens_per_s=10_000.0))) == ["10,000 tokens/s"]
    assert list(rates(replace(times, real_tokens_per_s=None))) == ["10,000 tokens/s"]
    assert list(rates(report.times(evidence(loop=Loop("fit"))))) == []


def test_noise_is_only_given_where_it_is_known():
    assert report.times(evidence()).noise is not None
    single = replace(evidence(), times=Times(Measure(0.1, 5, ()), *[Missing("x")] * 3))
    assert report.times(single).noise is None


def test_shares_of_stages_are_of_those_that_were_timed():
    slow, untimed, quick = report.stages(
        evidence(stages_=(stage("map", 0.03), stage("filter", None), stage("batch", 0.01)))
    )
    assert slow.share == 0.75
    assert quick.share == 0.25
    assert (untimed.seconds_per_step, untimed.share) == (None, None)


def test_a_pipeline_that_was_not_taken_apart_has_no_stages():
    assert report.stages(evidence(stages_=Missing("no tf.data"))) == ()


def test_stages_that_take_no_time_have_no_share():
    (only,) = report.stages(evidence(stages_=(stage("range", 0.0),)))
    assert only.share is None


def test_settings_of_a_stage_are_said_in_words():
    made = report.stages(
        evidence(
            stages_=(
                stage("map", arguments={"num_parallel_calls": None}),
                stage("map", arguments={"num_parallel_calls": -1}),
                stage("map", arguments={"num_parallel_calls": 4}),
                stage("map", arguments={"num_parallel_calls": None}, python=True),
                stage("prefetch", arguments={"buffer_size": -1}),
                stage("batch", arguments={"batch_size": 32}),
            )
        )
    )
    details = [one.detail for one in made]
    assert details[0] == "serial"
    assert details[1] == "AUTOTUNE"
    assert details[2] == "4 calls in parallel"
    assert "Python" in details[3]
    assert details[4] == "buffer AUTOTUNE"
    assert details[5] == "batch 32"


def reasons(found, run=None):
    return {one.what: one.reason for one in report.not_measured(run or recording(FIT), found)}


def test_everything_that_was_not_measured_has_its_reason():
    found = replace(
        evidence(
            stages_=(stage("map", None),),
            probes={"jit_compile": Missing("no time was left")},
        ),
        times=Times(measure(0.1), Missing("no batch"), Missing("ran out"), Missing("")),
    )
    said = reasons(found)
    assert said["the step with free input"] == "no batch"
    assert said["the input alone"] == "ran out"
    assert said["the stage `map`"] == "not timed"
    assert said["a probe of jit compile"] == "no time was left"
    assert "GPU use" in said
    assert said["the time between epochs"].startswith("an epoch has 1,000 steps")


def test_probes_that_lack_for_one_reason_are_told_together():
    late = Missing("no time was left")
    probes = {"foreach": late, "fused": Missing("LBFGS takes no fused="), "double_batch": late}
    said = reasons(evidence(probes=probes))
    assert said["probes of foreach, double batch"] == "no time was left"
    assert said["a probe of fused"] == "LBFGS takes no fused="


def test_what_was_measured_is_not_called_missing():
    run = recording(FIT, gpus=(Gpu(0, "NVIDIA A10G"),))
    said = reasons(evidence(between_epochs=BetweenEpochs(1.0, 2)), run)
    assert "GPU use" not in said
    assert "the time between epochs" not in said
    assert "the step as it is" not in said


def busy(others, waited=None):
    return (PhaseUse("real", 30, cpu_cores=2.0, others_cores=others, waited=waited),)


def test_busy_neighbours_are_said():
    (loud,) = report.notes(recording(FIT), evidence(use=busy(4.0, 0.3), machine=machine(8)))
    assert loud.startswith("neighbours took about 4.0 of 8 cores while the steps were timed")
    assert "kept its threads from them for 30 % of the time" in loud
    (idle,) = report.notes(recording(FIT), evidence(use=busy(4.0, 0.0), machine=machine(8)))
    assert "kept its threads" not in idle
    for others in (0.2, None):
        assert report.notes(recording(FIT), evidence(use=busy(others), machine=machine(8))) == ()


def test_rounds_that_do_not_count_are_said():
    some = replace(Measure(0.1, 30, (0.1,) * 5, 0.095, 0.105), disturbed=4)
    found = replace(evidence(), times=Times(some, *[Missing("x")] * 3))
    (note,) = report.notes(recording(FIT), found)
    assert note.startswith("4 blocks of steps were timed beside busy neighbours")


def test_rough_and_loud_times_are_said():
    few = replace(evidence(), times=Times(Measure(0.1, 5, ()), *[Missing("x")] * 3))
    assert any("only 5 steps" in note for note in report.notes(recording(FIT), few))
    loud = Measure(0.1, 30, (0.08, 0.12), 0.05, 0.15)
    varied = replace(evidence(), times=Times(loud, *[Missing("x")] * 3))
    assert any("varied by" in note for note in report.notes(recording(FIT), varied))


def test_long_tracing_is_said_once():
    slow = evidence(startup=StartUp(60.0, tracing_s=42.0))
    assert any("tracing the first step" in note for note in report.notes(recording(FIT), slow))


def test_tables_mapped_row_by_row_for_long_are_said():
    slow = evidence(startup=StartUp(60.0, mapped_s=42.0, mapped_where=SITE))
    assert any(
        "one row at a time (train.py:12)" in note for note in report.notes(recording(FIT), slow)
    )
    quick = evidence(startup=StartUp(60.0, mapped_s=2.0, mapped_where=SITE))
    assert not any("one row" in note for note in report.notes(recording(FIT), quick))


def test_notes_of_the_observer_are_given_once_each():
    note = {"e": "note", "text": "a hook failed"}
    run = recording(note, note, FIT, sampling_note="GPU 1 was lost")
    assert report.run_notes(run) == ("a hook failed", "GPU 1 was lost")


def test_a_script_that_failed_is_the_reason_for_no_step():
    (missing,) = report.nothing_measured(recording(ending=Ending.FAILED), "no loop")
    assert "ended before" in missing.reason
    (missing,) = report.nothing_measured(recording(ending=Ending.FINISHED), "no loop")
    assert missing.reason == "no loop"


def test_the_framework_that_was_imported_is_named():
    imported = {"e": "import", "name": "tensorflow", "version": "2.21.0"}
    assert report.framework_seen(recording(imported)).version == "2.21.0"
    assert report.framework_seen(recording()).name == ""


# --------------------------------------------------------------------------- PyTorch


def test_a_step_that_was_not_taken_apart_has_no_parts():
    assert report.step_parts(evidence()) == ()
    assert report.step_parts(torch_evidence(split=Missing("no time"))) == ()
    assert report.step_parts(torch_evidence(split=split(forward=0.0))) == ()


def test_parts_stand_in_the_order_of_a_step_and_share_its_sum():
    parts = report.step_parts(torch_evidence(split=split(rest=0.01, backward=0.06, forward=0.03)))
    assert [one.name for one in parts] == ["forward", "backward", "rest"]
    assert [round(one.share, 3) for one in parts] == [0.3, 0.6, 0.1]
    assert parts[0].calls_per_step == 1.0


def test_every_part_has_its_place_in_the_order():
    assert set(ORDER) == set(get_args(Part))


def test_the_dearest_wait_comes_first():
    quick, slow = SyncPoint(".cpu()", SITE, 1.0, 0.001), SyncPoint(".item()", SITE, 1.0, 0.002)
    assert report.sync_points(torch_evidence(torch={"syncs": (quick, slow)})) == (slow, quick)
    assert report.sync_points(evidence()) == ()


def test_waits_of_one_kind_in_one_line_are_one_row():
    """`print(a.item(), b.item())`: a reader could not tell two rows apart."""
    first = SyncPoint("item", Site("gan.py", 79, col=40), 1.0, 0.001)
    second = SyncPoint("item", Site("gan.py", 79, col=53), 1.0, 0.002, printed=True)
    other = SyncPoint("cpu", Site("gan.py", 79, col=60), 1.0, 0.004)
    other_row, row = report.sync_points(torch_evidence(torch={"syncs": (first, other, second)}))
    assert (other_row.calls, other_row.seconds) == (1.0, 0.004)
    assert (row.calls, row.seconds, row.printed) == (2.0, pytest.approx(0.003), True)


def test_memory_that_was_not_counted_is_none_and_not_zero():
    assert report.device_memory(evidence()) is None
    assert report.device_memory(torch_evidence()) is None
    found = report.device_memory(torch_evidence(torch={"memory": {"allocated_peak": 5}}))
    assert found is not None
    assert (found.allocated_peak, found.reserved_peak, found.retries) == (5, None, None)


TRACE = Trace("cpu", 3, (Operator("a", 2, 0.01), Operator("b", 1, 0.03)), 0.01, kernels=9.0)


def test_a_step_that_was_not_traced_has_no_operators():
    assert report.operators(evidence()) == report.operators(torch_evidence()) == ()
    assert report.kernels(evidence()) is report.kernels(torch_evidence()) is None
    empty = Trace("cpu", 1, (), 0.0, kernels=0.0)
    assert report.operators(torch_evidence(torch={"trace": empty})) == ()


def test_operators_share_the_time_of_all_and_the_dearest_comes_first():
    found = report.operators(torch_evidence(torch={"trace": TRACE}))
    assert [(one.name, round(one.share, 3)) for one in found] == [("b", 0.6), ("a", 0.2)]


def test_only_a_gpu_has_kernels():
    assert report.kernels(torch_evidence(torch={"trace": TRACE})) is None
    on_gpu = replace(TRACE, device="cuda", gap_s=0.002)
    found = report.kernels(torch_evidence(torch={"trace": on_gpu}))
    assert found is not None
    assert (found.launches_per_pass, found.busy_s, found.gap_s) == (9.0, 0.05, 0.002)
    assert found.tensor_core_s is None


def test_a_step_that_was_not_traced_has_its_reason():
    said = reasons(torch_evidence(torch={"untraced": "CUPTI is missing"}))
    assert said["the operators of a step"] == "CUPTI is missing"
    assert "the operators of a step" not in reasons(torch_evidence(torch={"trace": TRACE}))
    assert "the operators of a step" not in reasons(evidence())


def test_settings_of_a_loader_are_said_in_words():
    (item,) = report.stages(
        torch_evidence(
            stages_=(
                stage("dataset item", python=True, arguments={"workers": 0, "batch_size": 32}),
            )
        )
    )
    assert item.detail == "batch 32, 0 workers"
    (one,) = report.stages(
        torch_evidence(
            stages_=(stage("dataset item", arguments={"workers": 1, "prefetch_factor": 2}),)
        )
    )
    assert one.detail == "1 worker, 2 batches ahead each"


def test_a_step_of_pytorch_that_was_not_taken_apart_has_its_reason():
    said = reasons(torch_evidence(split=Missing("the script ended before")))
    assert said["the parts of a step"] == "the script ended before"
    assert "the parts of a step" not in reasons(torch_evidence())
    assert "the parts of a step" not in reasons(evidence())


def test_accumulated_gradients_are_said():
    calls = StepCalls(backwards=4.0)
    assert report.notes(recording(FIT), torch_evidence(calls=calls)) == (
        "a step here goes backward 4 times before it updates the weights",
    )
    two_losses = StepCalls(backwards=2.0, updates=2.0)
    assert report.notes(recording(FIT), torch_evidence(calls=two_losses)) == ()


@pytest.mark.parametrize(
    ("imported", "name"),
    [(("torch", "tensorflow"), "torch"), (("tensorflow",), "tensorflow"), ((), "")],
)
def test_without_a_loop_the_framework_is_the_first_that_was_imported(imported, name):
    events = [{"e": "import", "name": one, "version": "2.13.0"} for one in imported]
    assert report.framework_seen(recording(*events)).name == name


@pytest.mark.parametrize(
    ("what", "said"),
    [("item", ".item()"), ("float", "float()"), ("print", "print"), ("sync_all", "sync_all")],
)
def test_calls_that_wait_are_written_as_in_the_source(what, said):
    (sync,) = report.sync_points(torch_evidence(torch={"syncs": (SyncPoint(what, SITE, 1, 0.1),)}))
    assert sync.what == said


def test_the_ranks_of_a_job_are_reported_with_what_they_wait():
    found = report.parallel(
        parallel_evidence(
            parallel={"processes": (rank(0, local=measure(0.03)), rank(1, local=measure(0.05)))}
        )
    )
    assert [one.waits_s for one in found.ranks] == [pytest.approx(0.02), 0.0]
    assert found.exchange.share == pytest.approx(0.02)
    assert (found.break_even_batch, found.exchange.all_reduce) == (None, None)
    assert report.parallel(evidence()) is None


def test_a_job_says_what_of_its_exchange_was_not_measured():
    unknown = parallel_evidence(parallel={"exchange": exchange(None)})
    assert reasons(unknown)["gradient exchange"] == "not measured in this case"
    assert reasons(unknown)["all-reduces by themselves"] == "it was not timed"
    assert "the batch from which more devices pay" not in reasons(unknown)
    known = reasons(parallel_evidence(parallel={"scaling_reason": "one device only was free"}))
    assert "gradient exchange" not in known
    assert known["the step on fewer devices"] == "one device only was free"
    none = reasons(parallel_evidence(parallel={"exchange": None}))
    assert "no exchange of gradients" in none["gradient exchange"]
    assert reasons(evidence())["gradient exchange"] == "the script trains on one device"
    cut = (rank(0), rank(1, ended="failed in the warm-up with KeyError"))
    early = reasons(parallel_evidence(parallel={"exchange": None, "processes": cut}))
    assert early["gradient exchange"] == "a rank ended before the exchange was looked at"


def test_other_ranks_of_the_host_are_no_other_processes():
    busy = (PhaseUse("real", 20, cpu_cores=1.0, others_cores=2.0),)
    job = parallel_evidence(parallel={"processes": (rank(0), rank(1))})
    found = replace(job, use=busy)
    event = {"e": "hello"}
    alone, both = recording(event), recording(event)
    both = replace(both, events={1000: (event,), 1001: (event,)})
    alone = replace(alone, events={1000: (event,)})
    assert any("neighbours" in note for note in report.notes(both, found))
    assert not any("neighbours" in note for note in report.notes(alone, found))


def test_what_is_odd_about_ranks_is_noted():
    uneven = parallel_evidence(parallel={"notes": ("the shards are uneven",)})
    assert "the shards are uneven" in report.notes(recording(FIT), uneven)
