import pytest

from recordings import FIT, observed, steps
from trainperf.evidence.facts import (
    callbacks,
    framework,
    loop,
    padding,
    retracing,
    step_function,
)
from trainperf.model import Framework

UPDATE = {"e": "first_update", "t": 10.0}
FRAMEWORK = {
    "e": "framework",
    "name": "tensorflow",
    "version": "2.21.0",
    "keras": None,
    "legacy": False,
    "cuda": True,
    "gpus": [],
    "logical": 1,
}
TORCH = {**FIT, "kind": "iterator", "framework": "torch"}
BOTH = (
    {"e": "import", "name": "torch", "version": "2.13.0", "seconds": 2.0},
    {"e": "import", "name": "tensorflow", "version": "2.21.0", "seconds": 9.0},
)
PLACE = {"file": "train.py", "line": 7, "function": "step"}


def trace(at, in_step=True):
    return {"e": "trace", "name": "step", "t": at, "s": at - 0.5, "d": 0.5, "in_step": in_step}


def test_a_run_that_ended_early_still_names_its_framework():
    cut_short = observed({"e": "import", "name": "tensorflow", "version": "2.21.0"}, FIT)
    assert framework(cut_short).version == "2.21.0"
    assert loop(cut_short).batch_size is None


def test_a_loop_of_pytorch_is_one_whatever_else_was_imported():
    assert framework(observed(*BOTH, TORCH)) == Framework("torch", "2.13.0")
    assert framework(observed(*BOTH, FIT)) == Framework("tensorflow", "2.21.0")


def test_what_pytorch_says_of_itself_is_read():
    event = {**FRAMEWORK, "name": "torch", "version": "2.13.0+cu126"}
    made = observed(*BOTH, TORCH, FRAMEWORK, event)
    assert framework(made) == Framework("torch", "2.13.0+cu126", None, False, True)


def test_keras_on_pytorch_has_both_names():
    event = {**FRAMEWORK, "name": "torch", "version": "2.13.0", "keras": "3.15.1", "cuda": False}
    found = framework(observed(*BOTH, {**TORCH, "kind": "fit"}, event))
    assert (found.name, found.keras, found.built_with_cuda) == ("torch", "3.15.1", False)


def test_a_loop_over_a_loader_says_what_feeds_it():
    facts = {"e": "facts", "input_kind": "DataLoader", "batch_size": 64, "epoch_steps": 57}
    found = loop(observed(TORCH, facts))
    assert (found.kind, found.input_kind, found.epoch_steps) == ("iterator", "DataLoader", 57)


def test_a_step_of_several_batches_has_the_samples_of_all():
    facts = {"e": "facts", "batch_size": 16, "batches_per_step": 4}
    assert loop(observed(FIT, facts)).batch_size == 64


def test_tokens_of_a_step_are_those_of_its_batches():
    facts = {"e": "facts", "batch_size": 16, "batches_per_step": 4}
    found = loop(observed(TORCH, facts, {"e": "sequences", "tokens": 160.0, "real_tokens": 40.0}))
    assert (found.batch_size, found.tokens, found.real_tokens) == (64, 640.0, 160.0)
    found = loop(observed(TORCH, facts))
    assert (found.tokens, found.real_tokens) == (None, None)


def test_a_layer_that_wants_time_first_knows_the_samples_better():
    facts = {"e": "facts", "batch_size": 35}
    assert loop(observed(TORCH, facts, {"e": "sequences", "samples": 20})).batch_size == 20


@pytest.mark.parametrize(
    ("kind", "said"), [("argument", "iterator"), ("fit", "fit"), ("call", "call")]
)
def test_kinds_of_loops_are_named_for_the_reader(kind, said):
    assert loop(observed({**FIT, "kind": kind})).kind == said


def test_tracing_of_the_first_step_is_no_retracing():
    assert retracing(observed(FIT, trace(8.0), UPDATE, *steps("real", [0.1] * 5))) is None


def test_tracing_outside_a_step_is_no_retracing():
    made = observed(FIT, UPDATE, trace(100.6, in_step=False), *steps("real", [0.1] * 5))
    assert retracing(made) is None


def test_tracing_by_our_own_probes_is_no_retracing():
    made = observed(FIT, UPDATE, *steps("real", [0.1] * 5), {"e": "facts", "t": 50.0}, trace(60.0))
    assert retracing(made) is None


def test_retracing_is_counted_over_the_steps_it_fell_into():
    described = {
        "e": "step_function",
        "name": "train_step",
        "compiled": True,
        "where": PLACE,
        "signatures": ["(TensorSpec(shape=(32, 8)), 1)", "(TensorSpec(shape=(32, 8)), 2)"],
    }
    made = observed(FIT, UPDATE, trace(100.6), trace(100.9), *steps("real", [0.1] * 5), described)
    found = retracing(made)
    assert (found.function, found.count, found.steps, found.seconds) == ("train_step", 2, 5, 1.0)
    assert "Python value" in found.cause
    assert found.where.line == 7


def test_a_changing_shape_is_named_as_the_cause():
    described = {
        "e": "step_function",
        "name": "train_step",
        "signatures": ["(TensorSpec(shape=(32, 8)))", "(TensorSpec(shape=(7, 8)))"],
    }
    found = retracing(observed(FIT, UPDATE, trace(100.55), *steps("real", [0.1]), described))
    assert "(32, 8) and (7, 8)" in found.cause


def test_a_changing_dtype_is_named_as_the_cause():
    described = {
        "e": "step_function",
        "name": "train_step",
        "signatures": [
            "(TensorSpec(shape=(8,), dtype=tf.float32))",
            "(TensorSpec(shape=(8,), dtype=tf.float64))",
        ],
    }
    found = retracing(observed(FIT, UPDATE, trace(100.55), *steps("real", [0.1]), described))
    assert found.cause == "the dtype of an argument changes: float32 and float64"


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


def test_numbers_of_traces_before_the_timed_steps_are_left_out():
    before = {**trace(11.0), "call": called(number(2, parameter="seed"))}
    timed = {**trace(100.55), "call": called(number(), number("rate", parameter="rate"))}
    found = retracing(observed(FIT, UPDATE, before, timed, *steps("real", [0.1])))
    assert [each.argument for each in found.numbers] == [1, "rate"]
    assert found.cause == "the Python numbers `weight` and `rate`"


def test_the_function_that_was_traced_is_the_one_described():
    first = {"e": "step_function", "name": "other", "where": {**PLACE, "line": 3}}
    second = {"e": "step_function", "name": "step", "where": PLACE, "relaxed": True, "jit": True}
    found = retracing(observed(FIT, UPDATE, trace(100.55), *steps("real", [0.1]), first, second))
    assert (found.where.line, found.relaxed, found.jit) == (7, True, True)


def test_a_callback_has_the_places_of_its_own_methods():
    event = {
        "e": "callback",
        "name": "Log",
        "builtin": False,
        "where": None,
        "hooks": {"on_train_batch_end": [10, 1.0, 0.2]},
        "methods": {"on_train_batch_end": PLACE, "on_train_batch_begin": None},
        "arguments": {},
    }
    (cost,) = callbacks(observed(FIT, event))
    assert {name: place.line for name, place in cost.methods.items()} == {"on_train_batch_end": 7}


def test_a_tape_that_stands_in_the_loop_belongs_to_no_function():
    own_loop = {**FIT, "kind": "iterator"}
    event = {
        "e": "step_function",
        "name": "main",
        "compiled": False,
        "own": False,
        "where": PLACE,
        "tape": {**PLACE, "line": 9},
    }
    found = step_function(observed(own_loop, event))
    assert found.where is None
    assert found.tape_where.line == 9
    assert step_function(observed(FIT, event)) is None


def test_padding_says_what_batching_by_length_would_leave():
    event = {"e": "padding", "lengths": [1, 9, 1, 9], "batch": 2, "padded": 9.0}
    found = padding(observed(FIT, event))
    assert (found.mean_length, found.padded_length, found.bucketed_length) == (5.0, 9.0, 5.0)
    assert found.sequences == 4
    assert (found.side, found.masked, found.longest_length) == ("end", None, None)


def test_padding_says_at_which_end_it_stands_and_whether_the_model_masks_it():
    event = {"e": "padding", "lengths": [9, 9], "batch": 2, "padded": 9.0, "longest": 4.0}
    found = padding(observed(FIT, {**event, "side": "start", "masked": True}))
    assert (found.side, found.masked, found.longest_length) == ("start", True, 4.0)
    assert found.place is None
    place = {"kind": "tuple", "at": 0, "along": [0]}
    assert padding(observed(FIT, {**event, "place": place})).place.along == (0,)
