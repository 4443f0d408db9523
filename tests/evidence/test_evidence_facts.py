"""What is read of a process, its loop and its input from what they recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

import zoo
from fixes.case_text import evidence_of
from recordings import FIT, observed, steps
from trainperf import evidence
from trainperf.evidence import stages
from trainperf.evidence.events import Observed
from trainperf.evidence.facts import (
    framework,
    length,
    retracing,
)
from trainperf.model import Framework, Loop, Missing, is_taken

UPDATE = {"e": "first_update", "t": 10.0}
TORCH = {**FIT, "kind": "iterator", "framework": "torch"}
BOTH = (
    {"e": "import", "name": "torch", "version": "2.13.0", "seconds": 2.0},
    {"e": "import", "name": "tensorflow", "version": "2.21.0", "seconds": 9.0},
)


def trace(at, in_step=True):
    return {"e": "trace", "name": "step", "t": at, "s": at - 0.5, "d": 0.5, "in_step": in_step}


def test_a_loop_of_pytorch_is_one_whatever_else_was_imported():
    assert framework(observed(*BOTH, TORCH)) == Framework("torch", "2.13.0")
    assert framework(observed(*BOTH, FIT)) == Framework("tensorflow", "2.21.0")


@pytest.mark.parametrize(
    ("before", "events"),
    [
        ([trace(8.0)], []),  # of the first step
        ([], [trace(100.6, in_step=False)]),
        ([], [{"e": "facts", "t": 50.0}, trace(60.0)]),  # by our own probes
    ],
)
def test_what_is_traced_beside_the_later_steps_is_no_retracing(before, events):
    made = observed(FIT, *before, UPDATE, *steps("real", [0.1] * 5), *events)
    assert retracing(made) is None


@pytest.mark.parametrize(
    ("first", "second", "changes"),
    [
        ("(TensorSpec(shape=(32, 8)))", "(TensorSpec(shape=(7, 8)))", "shape"),
        ("(TensorSpec(dtype=tf.float32))", "(TensorSpec(dtype=tf.float64))", "dtype"),
    ],
)
def test_what_changes_between_two_calls_is_known_and_named(first, second, changes):
    described = {"e": "step_function", "name": "train_step", "signatures": [first, second]}
    found = retracing(observed(FIT, UPDATE, trace(100.55), *steps("real", [0.1]), described))
    assert found.changes == changes
    named = {"shape": "(32, 8) and (7, 8)", "dtype": "float32 and float64"}
    assert found.cause == f"the {changes} of an argument changes: {named[changes]}"


CALL = {"file": "train.py", "line": 9, "function": "main", "end_line": 9, "col": 4, "end_col": 20}


def called(*numbers):
    return {"where": CALL, "numbers": list(numbers)}


def number(argument=1, type="float", parameter="weight"):
    return {"argument": argument, "parameter": parameter, "type": type}


@pytest.mark.parametrize(
    ("types", "dtype"),
    [
        (["int", "int"], "int32"),
        (["int", "float"], "float32"),
        (["float"], "float32"),
        (["int", "long"], ""),
    ],
)
def test_numbers_that_change_have_the_dtype_that_holds_them_all(types, dtype):
    traces = [
        {**trace(100.1 + 0.1 * index), "s": 100.05, "call": called(number(type=type))}
        for index, type in enumerate(types)
    ]
    found = retracing(observed(FIT, UPDATE, *traces, *steps("real", [1.0])))
    (changing,) = found.numbers
    assert (changing.where.line, changing.argument, changing.dtype) == (9, 1, dtype)
    assert found.cause == "the Python number `weight`"


def reached(command: list[str], argv: list[str]) -> bool:
    recorded = zoo.load("torch_healthy")
    run = replace(recorded.recording.run, command=tuple(command))
    events = {
        pid: tuple({**event, "argv": argv} if event["e"] == "hello" else event for event in events)
        for pid, events in recorded.recording.events.items()
    }
    made = replace(recorded.recording, run=run, events=events)
    return bool(evidence.read(made, recorded.machine).facts["command_reaches_script"])


def test_words_of_a_module_are_those_behind_its_name() -> None:
    argv = ["python", "-X", "dev", "-m", "train", "-c", "a.json"]
    assert reached(["python", "-m", "train", "-c", "a.json"], argv)
    assert not reached(["make", "a.json"], argv)


def described(index, op, **fields):
    return {"e": "stage", "index": index, "op": op, "arguments": {}, "by_user": True, **fields}


def timed(index, seconds, count):
    return {"e": "stage_time", "index": index, "seconds": seconds, "elements_per_step": count}


def test_a_stage_without_a_time_says_why_and_the_others_keep_theirs():
    source, filtered, batched = stages(
        observed(
            FIT,
            described(0, "range"),
            described(1, "filter"),
            described(2, "batch"),
            {"e": "stage_time", "index": 0, "missing": "it delivered nothing"},
            timed(1, 0.1, None),
            timed(2, 0.02, 1),
        )
    )
    assert source.seconds_per_step_ == Missing("it delivered nothing")
    assert not is_taken(filtered.seconds_per_step_)
    assert batched.seconds_per_step == 0.02


def test_only_a_stateless_serial_map_is_run_in_parallel_by_tf_data():
    plain, stateful, parallel = stages(
        observed(
            FIT,
            described(0, "map"),
            described(1, "map", stateful=True),
            {**described(2, "map"), "arguments": {"num_parallel_calls": -1}},
        )
    )
    assert plain.parallelised_by_default
    assert not stateful.parallelised_by_default
    assert not parallel.parallelised_by_default


def test_an_input_of_next_to_nothing_is_not_what_an_own_loop_waits_for():
    quick = "times.real = 0.0156; times.resident = 0.0133; times.input = 0.000136"
    assert not evidence_of(f"eager_loop | {quick}").input_bound
    # the same in `fit` is handing over, which no drain of the input shows
    assert evidence_of(f"slow_images | {quick}").input_bound


def around(text="for batch in loader:", turns=None, left=None, each=None, line=7, sometimes=False):
    return {
        "file": "/w/train.py",
        "line": line,
        "function": "main",
        "text": text,
        "turns": turns,
        "left": left,
        "each": each,
        "sometimes": sometimes,
    }


def found(loop, *loops, made=10, trainer=None, apart=(), first=None, last=None, replayed=0):
    phases = ["real"] * made + ["resident", "resident~"] * (replayed // 2)
    steps = tuple({"e": "step", "p": phase} for phase in phases)
    event = {"e": "length", "loops": list(loops), "trainer": trainer, "left": (first, last)}
    cycles = tuple({"e": "cycle", "turns": turns} for turns in apart)
    return length(Observed((), {"kind": "fit"}, (*steps, event, *cycles)), loop)


DATA = Loop("iterator", epoch_steps=40)
EPOCHS = around("for epoch in range(6):", turns=6, line=5)


@pytest.mark.parametrize(
    ("loop", "loops"),
    [
        (DATA, [around(), around("for epoch in forever():")]),
        (Loop("iterator"), [around(), EPOCHS]),
        (Loop("fit", epochs=3), []),
        (Loop("fit", epochs=3, epoch_steps=9), [around("for lr in sweep():")]),
        (Loop("update"), [around("while True:")]),
        (Loop("update"), []),
    ],
)
def test_what_the_source_does_not_tell_is_not_known_and_why(loop, loops):
    told = found(loop, *loops)
    assert isinstance(told, Missing)
    assert told.reason


def test_a_loop_over_data_within_one_of_epochs():
    told = found(DATA, around(), EPOCHS)
    assert (told.steps, told.epochs, told.text) == (240, 6, "6 epochs of 40 steps")
    assert told.where.line == 5


def test_a_counter_of_the_loop_ends_each_epoch_sooner():
    assert found(DATA, around(each=25), EPOCHS).steps == 150


def test_a_counter_that_goes_on_through_the_epochs_ends_the_training():
    told = found(DATA, around(left=90), EPOCHS, made=10)
    assert (told.steps, told.epochs) == (100, 3)
    assert told.text == "100 steps, until its counter ends it"
    assert found(Loop("iterator"), around(left=90), made=10).steps == 100  # of endless data


def test_gradients_that_accumulate_are_one_step():
    loop = Loop("iterator", epoch_steps=10, batches_per_step=4)
    assert found(loop, around(each=20), EPOCHS).steps == 30
    assert found(loop, around(left=80), EPOCHS, made=5).steps == 25


def test_a_loop_that_asks_for_its_batches_counts_its_own_turns():
    assert found(DATA, around("for step in range(500):", turns=500)).steps == 500
    assert found(DATA, around("while True:", left=90), made=10).steps == 100
    accumulates = Loop("iterator", epoch_steps=40, batches_per_step=2)
    inner = around("for micro in range(2):", turns=2)
    assert found(accumulates, inner, around("for step in range(50):", turns=50)).steps == 50


def test_steps_of_a_loop_that_makes_its_batches():
    told = found(Loop("update"), around("for i in range(20):", turns=20), EPOCHS)
    assert (told.steps, told.epochs) == (120, None)


@pytest.mark.parametrize("replayed", [0, 60])
def test_steps_under_a_condition_come_as_often_as_they_were_seen_to(replayed):
    # every tenth of 60,000 turns, from 500 on
    recorded = evidence_of("replayed_now_and_then").length_
    assert recorded.steps == pytest.approx(5_950, rel=0.01)

    turns = around("for step in range(150_000):", turns=150_000, sometimes=True)
    told = found(Loop("call"), turns, made=200, first=140_000, last=138_000, replayed=replayed)
    assert (told.steps, told.text) == (14_000, "about 14,000 steps")
    for first, last in ((None, None), (140_000, 140_000), (None, 138_000)):
        assert found(Loop("update"), turns, first=first, last=last) == Missing(
            "the update does not come in each turn of `for step in range(150_000)`"
        )


def test_a_counter_that_ends_a_loop_and_the_one_around_it_counts_once():
    inner = around("while not done and len(losses) < 210:", left=180)
    outer = around("while len(losses) < 210:", left=180, line=5)
    assert found(Loop("call"), inner, outer, made=30).steps == 210
    assert found(Loop("call"), inner, outer, EPOCHS, made=30).steps == 6 * 210


def test_fit_says_its_epochs_and_the_loops_around_it_how_often():
    fit = Loop("fit", epochs=3, epoch_steps=10)
    assert found(fit).steps == 30
    told = found(fit, around("for fold in range(4):", turns=4))
    assert (told.steps, told.epochs, told.fits) == (120, 12, 4)
    assert told.text == "4 calls of `fit`, 12 epochs of 10 steps in all"


def test_a_fit_under_a_condition_comes_as_often_as_it_was_seen_to():
    fit = Loop("fit", epochs=1, epoch_steps=1)
    turns = around("for t in range(180):", turns=180, sometimes=True)
    assert found(fit, turns) == Missing("`fit` does not come in each turn of `for t in range(180)`")
    told = found(fit, turns, apart=(4, None, 4))
    assert (told.steps, told.fits) == (45, 45)
    assert told.text == "about 45 calls of `fit`, 45 epochs of 1 step in all"
    assert found(fit, around(turns=180), apart=(1, 1)).text.startswith("180 calls")


@pytest.mark.parametrize(
    ("steps", "epochs", "many"), [(100, None, 100), (None, 3, 120), (100, 3, 100), (500, 3, 120)]
)
def test_a_trainer_ends_at_its_steps_or_its_epochs(steps, epochs, many):
    trainer = {"name": "Trainer", "steps": steps, "epochs": epochs}
    assert found(DATA, trainer=trainer).steps == many
