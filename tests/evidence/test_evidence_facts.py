import pytest

from recordings import FIT, observed, steps
from trainperf.evidence.facts import (
    framework,
    retracing,
)
from trainperf.model import Framework

UPDATE = {"e": "first_update", "t": 10.0}
FRAMEWORK = {
    "e": "framework",
    "name": "tensorflow",
    "version": "2.21.0",
    "keras": None,
    "cuda": True,
    "gpus": [],
    "logical": 1,
}
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
