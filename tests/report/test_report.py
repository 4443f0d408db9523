from dataclasses import replace
from typing import get_args

import pytest

from kit.evidence import SITE, evidence, measure, stage
from kit.parallel_evidence import exchange, parallel_evidence, rank
from kit.torch_evidence import split, torch_evidence
from recordings import FIT, recording
from trainperf.model import (
    BetweenEpochs,
    Ending,
    Gpu,
    Loop,
    Measure,
    Missing,
    StartUp,
    SyncPoint,
    Times,
)
from trainperf.model.torch.step import Part
from trainperf.report.assemble import diagnosis as report
from trainperf.report.sections.parts import NAMES
from trainperf.report.sections.step import rates


def test_times_that_were_not_taken_are_none_and_not_zero():
    found = report.times(evidence(resident=None, input=None, host=None))
    assert found.real_s == 0.1
    assert (found.resident_s, found.input_s, found.host_s) == (None, None, None)
    assert set(found.spread) == {"real"}


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


def test_what_was_measured_is_not_called_missing():
    run = recording(FIT, gpus=(Gpu(0, "NVIDIA A10G"),))
    said = reasons(evidence(between_epochs=BetweenEpochs(1.0, 2)), run)
    assert "GPU use" not in said
    assert "the time between epochs" not in said
    assert "the step as it is" not in said


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


# --------------------------------------------------------------------------- PyTorch


def test_a_step_that_was_not_taken_apart_has_no_parts():
    assert report.step_parts(evidence()) == ()
    assert report.step_parts(torch_evidence(split=Missing("no time"))) == ()
    assert report.step_parts(torch_evidence(split=split(forward=0.0))) == ()


def test_every_part_has_its_place_in_the_order():
    assert set(NAMES) == set(get_args(Part))


def test_the_dearest_wait_comes_first():
    quick, slow = SyncPoint(".cpu()", SITE, 1.0, 0.001), SyncPoint(".item()", SITE, 1.0, 0.002)
    assert report.sync_points(torch_evidence(torch={"syncs": (quick, slow)})) == (slow, quick)
    assert report.sync_points(evidence()) == ()


def test_memory_that_was_not_counted_is_none_and_not_zero():
    assert report.device_memory(evidence()) is None
    assert report.device_memory(torch_evidence()) is None
    found = report.device_memory(torch_evidence(torch={"memory": {"allocated_peak": 5}}))
    assert found is not None
    assert (found.allocated_peak, found.reserved_peak, found.retries) == (5, None, None)


@pytest.mark.parametrize(
    ("imported", "name"),
    [(("torch", "tensorflow"), "torch"), (("tensorflow",), "tensorflow"), ((), "")],
)
def test_without_a_loop_the_framework_is_the_first_that_was_imported(imported, name):
    events = [{"e": "import", "name": one, "version": "2.13.0"} for one in imported]
    assert report.framework_seen(recording(*events)).name == name


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
