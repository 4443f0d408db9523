"""`predict_on_batch` stands for other calls of a model where it changes nothing."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from trainperf.child.keras.hooks import OnBatch, of_predict, on_batch

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


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (ONE * 2, ONE * 2.5, 0.25),
        (ONE, ONE[:, :2], 1.0),
        ([ONE, ONE], [ONE], 1.0),
        (ONE * np.nan, ONE, 1.0),
        (ONE * np.nan, ONE * np.nan, 0.0),
    ],
)
def test_how_far_results_lie_apart(dense: Any, one: Any, other: Any, apart: float) -> None:
    assert OnBatch(dense, ONE).apart(one, other) == pytest.approx(apart)
