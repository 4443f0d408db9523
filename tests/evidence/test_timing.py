import pytest

from recordings import FIT, block, observed, steps
from trainperf.errors import NotMeasured
from trainperf.evidence.timing import (
    between_epochs,
    probes,
    startup,
    student,
    times,
    without_stalls,
)
from trainperf.model import Missing, Probe


def drain(*marks, index=0):
    return {"e": "input", "b": index, "s": 0.0, "marks": [list(mark) for mark in marks]}


def test_a_step_is_the_total_time_over_the_total_of_steps():
    found = times(observed(FIT, block("real", 1.0, 10), block("real", 2.0, 10, 1)))
    assert found.real == pytest.approx(0.15)
    assert found.real_.steps == 20
    assert found.real_.rounds == (0.1, 0.2)


def test_steps_in_one_call_are_counted_each():
    facts = {"e": "facts", "steps_per_execution": 5}
    found = times(observed(FIT, facts, block("real", 1.0, 10)))
    assert found.real == pytest.approx(0.02)
    assert found.real_.steps == 50


def test_the_interval_comes_from_the_spread_within_and_between_rounds():
    quiet = [0.1] * 8
    loud = [0.05, 0.15] * 4
    narrow = times(
        observed(FIT, *steps("real", quiet), *steps("real", quiet, 1), block("real", 1.6, 16))
    ).real_
    wide = times(
        observed(
            FIT,
            *steps("real", [0.05] * 8),
            *steps("real", [0.15] * 8, 1),
            block("real", 1.6, 16),
        )
    ).real_
    assert narrow.high - narrow.low == pytest.approx(0.0, abs=1e-9)
    assert wide.noise > 0.2
    assert times(observed(FIT, *steps("real", loud), block("real", 0.8, 8))).real_.noise < 0.01


def test_one_block_alone_has_no_interval():
    found = times(observed(FIT, block("real", 1.0, 10))).real_
    assert (found.low, found.high) == (None, None)
    assert found.noise == 0.10


def test_settling_and_first_steps_are_in_no_time():
    found = times(
        observed(
            FIT,
            *steps("real~", [9.0, 9.0]),
            *steps("first", [9.0]),
            *steps("traced", [9.0]),
            *steps("real", [0.1] * 10),
            block("real", 1.0, 10),
        )
    )
    assert found.real == pytest.approx(0.1)


def test_one_stall_of_the_machine_is_left_out_and_counted():
    durations = [0.1] * 24
    durations[13] = 5.0
    found = times(
        observed(
            FIT,
            *steps("real", durations[:8]),
            *steps("real", durations[8:16], 1),
            *steps("real", durations[16:], 2),
            block("real", 0.8, 8),
            block("real", 5.7, 8, 1),
            block("real", 0.8, 8, 2),
        )
    ).real_
    assert found.seconds == pytest.approx(0.1)
    assert found.stalls == 1


def test_what_happens_often_is_no_stall():
    parts = [(0.1, 1), (0.5, 1), (0.1, 1), (0.5, 1), (0.1, 1), (0.1, 1)]
    assert without_stalls(parts) == parts
    assert without_stalls(parts[:5]) == parts[:5]


def test_a_run_that_ended_early_is_timed_from_its_single_steps():
    found = times(observed(FIT, *steps("warmup", [8.0, 0.1, 0.1, 0.1]))).real_
    assert found.seconds == pytest.approx(0.1)
    assert found.steps == 3
    assert found.blocks == ()


def test_too_few_steps_are_no_measure_and_never_zero():
    found = times(observed(FIT, *steps("warmup", [8.0, 0.1])))
    assert isinstance(found.real_, Missing)
    with pytest.raises(NotMeasured, match="before the real phase"):
        _ = found.real


def test_the_input_is_the_slope_of_the_later_half_of_a_drain():
    full_buffers = [(0.0, 10), (0.001, 20), (1.0, 21), (2.0, 22), (3.0, 23), (4.0, 24)]
    found = times(observed(FIT, drain(*full_buffers)))
    assert found.input == pytest.approx(1.0)
    assert found.input_.steps == 2


def test_one_long_wait_for_many_batches_is_still_a_slope():
    found = times(observed(FIT, drain((0.5, 1), (1.0, 2))))
    assert found.input == pytest.approx(0.5)


def test_a_drain_of_one_batch_has_no_slope():
    found = times(observed(FIT, drain((0.5, 1))))
    assert isinstance(found.input_, Missing)


def test_the_middle_of_the_drains_counts():
    made = [drain((1.0, 1), (1.0 + s, 2), index=i) for i, s in enumerate((0.1, 0.12, 9.0))]
    assert times(observed(FIT, *made)).input == pytest.approx(0.12)


def test_a_step_of_several_batches_needs_the_input_of_all():
    facts = {"e": "facts", "batches_per_step": 4}
    found = times(observed(FIT, facts, drain((0.5, 1), (1.0, 2))))
    assert found.input == pytest.approx(2.0)


def test_a_loop_that_makes_its_own_batches_says_why_it_has_no_input_time():
    own = {**FIT, "kind": "call", "phases": ["real", "resident"]}
    assert "makes its own batches" in times(observed(own)).input_.reason


def test_host_work_is_what_a_resident_step_spends_outside_the_function():
    found = times(observed(FIT, *steps("resident", [0.1] * 4, busy=0.07)))
    assert found.host == pytest.approx(0.03)


def test_host_work_is_not_told_where_the_loop_is_the_users():
    own = {**FIT, "kind": "iterator"}
    assert isinstance(times(observed(own, *steps("resident", [0.1]))).host_, Missing)


def test_start_up_is_told_apart():
    found = startup(
        observed(
            {"e": "hello", "t": 10.0},
            {"e": "import", "t": 13.0, "seconds": 2.5},
            FIT,
            {"e": "trace", "t": 19.0, "s": 16.0, "d": 3.0, "in_step": True},
            {"e": "trace", "t": 15.0, "s": 14.0, "d": 1.0, "in_step": False},
            {"e": "first_update", "t": 20.0},
            {"e": "trace", "t": 30.0, "s": 29.0, "d": 1.0, "in_step": True},
        )
    )
    assert found.to_first_step_s == 10.0
    assert found.imports_s == 2.5
    assert found.tracing_s == 3.0
    assert found.first_step_s == 4.0
    assert found.setup_s == 3.5


def test_without_an_update_there_is_no_start_up():
    assert startup(observed({"e": "hello"}, FIT)) is None


def test_without_an_epochs_end_only_the_restart_is_known():
    assert between_epochs(observed(FIT)) is None
    found = between_epochs(
        observed(FIT, block("real", 1.0, 10), *steps("first", [0.5]), *steps("real", [0.1]))
    )
    assert found.seconds == found.restart_s == pytest.approx(0.4)
    assert found.validation_s is None


def test_a_first_step_that_goes_on_with_what_a_drain_opened_is_no_restart():
    epoch, usual = {"e": "epoch"}, [block("real", 1.0, 10), *steps("real", [0.1] * 10)]
    after_a_drain = [epoch, drain((0.5, 1), (1.0, 9)), *steps("first", [0.11])]
    opening = [epoch, *steps("first", [2.1])]
    found = between_epochs(observed(FIT, *usual, *after_a_drain, *opening, *after_a_drain))
    assert found.restart_s == pytest.approx(2.0)
    assert between_epochs(observed(FIT, *usual, *after_a_drain)) is None


def test_the_first_of_several_epoch_ends_is_left_out():
    gaps = [{"e": "between", "s": s, "seconds": d} for s, d in ((10.0, 9.0), (30.0, 2.0))]
    evaluations = [{"e": "evaluate", "s": s, "seconds": d} for s, d in ((11.0, 8.0), (31.0, 1.5))]
    found = between_epochs(observed(FIT, *gaps, *evaluations, {"e": "facts", "epoch_steps": 20}))
    assert found.seconds == pytest.approx(2.0)
    assert found.validation_s == pytest.approx(1.5)
    assert (found.epochs_seen, found.epoch_steps) == (2, 20)


def test_a_probe_is_the_geometric_mean_of_its_pairs():
    event = {
        "e": "probe",
        "name": "compiled",
        "base": [0.2, 0.4],
        "candidate": [0.1, 0.1],
        "one_off": 1.5,
        "detail": {},
    }
    found = probes(observed(FIT, event))["compiled"]
    assert found.ratio == pytest.approx(8**0.5)
    assert found.low < found.ratio < found.high
    assert found.one_off_s == 1.5


def test_a_probe_that_was_not_run_has_its_reason():
    missing = {"e": "missing", "what": "probe jit_compile", "reason": "no time was left"}
    found = probes(observed(FIT, missing, {"e": "missing", "what": "input", "reason": "x"}))
    assert found == {"jit_compile": Missing("no time was left")}


def test_a_probe_that_failed_once_and_then_ran_counts_as_run():
    missing = {"e": "missing", "what": "probe compiled", "reason": "x"}
    ran = {
        "e": "probe",
        "name": "compiled",
        "base": [0.2],
        "candidate": [0.1],
        "one_off": 0.0,
        "detail": {},
    }
    found = probes(observed(FIT, missing, ran))["compiled"]
    assert isinstance(found, Probe)
    assert found.low < 1.1  # one pair alone proves nothing


def test_the_interval_of_a_mean_is_students():
    assert student([1.0]) is None
    assert student([1.0, 3.0]) == pytest.approx(12.71)
    assert student([1.0] * 20) == 0.0


def test_the_last_call_of_an_epoch_holds_what_is_left_of_it():
    """20 batches at 16 a call are 2 calls of 10 on average, not of 16."""
    facts = {"e": "facts", "steps_per_execution": 16, "epoch_steps": 20}
    found = times(observed(FIT, facts, block("real", 1.0, 3)))
    assert found.real_.steps == 30
    assert isinstance(found.real_.steps, int)


TORCH = {**FIT, "kind": "iterator", "framework": "torch"}


def test_host_work_of_pytorch_is_missing_and_not_zero():
    for kind in ("iterator", "fit"):
        made = observed({**TORCH, "kind": kind}, *steps("resident", [0.1] * 4))
        assert isinstance(times(made).host_, Missing)


def test_without_tracing_the_first_step_is_part_of_the_set_up():
    found = startup(
        observed(
            {"e": "hello", "t": 0.0},
            {"e": "import", "name": "torch", "version": "2.13.0", "seconds": 2.0, "t": 2.5},
            {"e": "first_update", "t": 7.0},
            {"e": "import", "name": "tensorflow", "version": "2.21", "seconds": 9.0, "t": 20.0},
            {**TORCH, "t": 21.0},
        )
    )
    assert (found.to_first_step_s, found.imports_s, found.setup_s) == (7.0, 2.0, 5.0)
    assert (found.tracing_s, found.first_step_s) == (None, None)


def test_an_evaluation_before_the_first_step_is_told_within_the_set_up():
    found = startup(
        observed(
            {"e": "hello", "t": 0.0},
            {"e": "evaluation", "t": 5.0, "s": 2.0, "seconds": 3.0},
            {"e": "first_update", "t": 8.0},
            {"e": "loop", "kind": "update", "framework": "torch", "phases": ["real"], "t": 9.0},
            {"e": "evaluation", "t": 30.0, "s": 27.0, "seconds": 3.0},
        )
    )
    assert (found.setup_s, found.evaluation_s) == (8.0, 3.0)
