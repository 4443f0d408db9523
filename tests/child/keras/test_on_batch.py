"""`predict_on_batch` stands for other calls of a model where it changes nothing."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from looping import Watcher
from trainperf.child.keras.calls import count_calls
from trainperf.child.keras.on_batch import OnBatch, of_predict, on_batch
from trainperf.child.process.patching import undo
from trainperf.child.timing.calls import Calls
from trainperf.child.timing.in_place import InPlace

ONE = np.ones((1, 3), "float32")


def made(*inner: Any) -> Any:
    return keras.Sequential([layers.Input((3,)), *inner])


@pytest.fixture(scope="module")
def dense() -> Any:
    return made(layers.Dense(2))


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((np.ones((64, 3)),), {}),
        ((np.ones((8, 3)),), {"batch_size": 4}),
        (([[1.0, 2.0, 3.0]],), {}),
        ((ONE,), {"callbacks": []}),
        ((ONE,), {"steps": 1}),
        ((ONE, 1), {}),
        ((), {}),
    ],
)
def test_predict_that_is_told_more_than_a_small_batch_is_left_alone(dense, args, kwargs):
    assert of_predict((dense, *args), kwargs) is None


def test_models_with_state_or_code_of_the_users_are_left_alone() -> None:
    stateful = keras.Sequential([keras.Input(batch_shape=(1, 4, 3)), layers.LSTM(2, stateful=True)])
    assert on_batch(stateful, np.ones((1, 4, 3))) is None
    assert on_batch(made(layers.Lambda(lambda x: x)), ONE) is None


def test_it_gives_the_same_numbers_and_traces_no_more_than_once(dense: Any) -> None:
    result = dense.predict(ONE, verbose=0)
    other = of_predict((dense, ONE), {"verbose": 0})
    assert other is not None
    other()
    traces = other.traces()
    assert other.apart(result, other()) == 0.0
    assert other.traces() == traces
    assert not other.undo()


def test_random_numbers_that_it_drew_are_put_back() -> None:
    drop = layers.Dropout(0.5)
    model = made(drop)
    model.predict(ONE, verbose=0)
    before = drop.seed_generator.state.numpy().copy()
    other = on_batch(model, ONE)
    assert other is not None
    other()
    assert not other.undo(), "dropout is at work in training only"
    drop.seed_generator.next()
    assert (drop.seed_generator.state.numpy() != before).any()
    assert other.undo()
    assert (drop.seed_generator.state.numpy() == before).all()


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (ONE, ONE, 0.0),
        (ONE * 2, ONE * 2.5, 0.25),
        (ONE, ONE[:, :2], 1.0),
        ([ONE, ONE], [ONE], 1.0),
        ({"a": ONE}, {"a": ONE}, 0.0),
        (ONE * np.nan, ONE, 1.0),
        (ONE * np.nan, ONE * np.nan, 0.0),
        (ONE * 0, ONE, 1.0),
        (np.array(["a"]), np.array(["b"]), 1.0),
    ],
)
def test_how_far_results_lie_apart(dense: Any, one: Any, other: Any, apart: float) -> None:
    assert OnBatch(dense, ONE).apart(one, other) == pytest.approx(apart)


class Beside:
    """A loop whose steps are all measured."""

    def beside_steps(self) -> bool:
        return True

    def lay_aside_of_gap(self, seconds: float) -> None:
        assert seconds > 0


@pytest.fixture
def watcher() -> Any:
    from keras.src.backend.tensorflow import trainer

    made = Watcher()
    made.clock = time.monotonic
    made.driver = Beside()
    calls = Calls(made, InPlace(made))
    loops: Any = SimpleNamespace(process=made, calls=calls)
    count_calls(loops, trainer.TensorFlowTrainer, of_predict)
    made.calls = calls
    yield made
    for name in ("predict", "predict_on_batch", "test_on_batch"):
        undo(trainer.TensorFlowTrainer, name)


@pytest.mark.alone
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_predict_in_a_loop_is_compared_with_it_and_keeps_its_results(watcher, dtype):
    model = keras.Sequential([keras.Input((4, 3)), layers.LSTM(8), layers.Dense(2)])
    model.compile("sgd", "mse")
    given = np.random.default_rng(7).random((30, 1, 4, 3)).astype(dtype)
    results = [model.predict(one, verbose=0) for one in given]
    (called,) = watcher.calls.take()
    assert (called["what"], called["n"], called["rows"]) == ("predict", 30, 1)
    events = watcher.record.of("in_place")
    pairs = [one for one in events if not one["traced"]]
    assert len(pairs) >= 7
    assert len(events) - len(pairs) <= 2
    assert {one["apart"] for one in events} == {0.0}
    assert sum(one["instead_s"] for one in pairs) < sum(one["seconds"] for one in pairs)
    watcher.off = True
    assert all(
        np.array_equal(model.predict_on_batch(one), result)
        for one, result in zip(given, results, strict=True)
    )
