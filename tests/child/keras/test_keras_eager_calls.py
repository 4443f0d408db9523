"""Models that the user's code calls eagerly, counted where nothing needs them to be eager."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from kit.child import Watcher
from trainperf.child.keras.hooks import NAME, EagerCalls
from trainperf.child.process.patching import replace, undo
from trainperf.child.timing.calls import Calls

ONE = np.ones((1, 3), "float32")


class Own(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.inner = dense()

    def call(self, x: Any) -> Any:
        return self.inner(x)


def dense() -> Any:
    return keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])


@pytest.fixture
def loops() -> Iterator[Any]:
    process = Watcher()
    loops = SimpleNamespace(process=process, calls=Calls(process), depth=0)
    replace(keras.Model, "__call__", EagerCalls(loops).make)
    yield loops
    undo(keras.Model, "__call__")


def counted(loops: Any) -> list[tuple[int, int | None]]:
    return [(one["n"], one["rows"]) for one in loops.calls.take() if one["what"] == NAME]


def test_what_a_step_or_a_traced_function_or_a_tape_needs_is_not_counted(loops: Any) -> None:
    model = dense()
    tf.function(lambda x: model(x))(ONE)
    with tf.GradientTape() as tape:
        tape.watch(value := tf.constant(ONE))
        found = model(value)
    assert tape.gradient(found, value) is not None
    loops.depth = 1
    model(ONE)
    assert counted(loops) == []


def test_a_place_that_a_tape_has_seen_may_not_be_replaced(loops: Any) -> None:
    model = dense()

    def forward() -> Any:
        return model(ONE)

    forward()
    assert counted(loops) == [(1, 1)]
    with tf.GradientTape():
        forward()
    forward()
    assert counted(loops) == [(1, None)]


class Encoder:
    def __init__(self) -> None:
        self.model = dense()

    def encode(self, x: Any) -> Any:
        return tf.split(
            self.model(x),
            num_or_size_splits=2,
            axis=1,
        )

    def twice(self, x: Any) -> Any:
        return (lambda y: self.model(y))(x)


@pytest.mark.parametrize("name", ["encode", "twice"])
def test_a_function_that_autograph_runs_as_well_may_not_be_replaced(loops: Any, name: str) -> None:
    encode = getattr(Encoder(), name)
    encode(ONE)
    assert counted(loops) == [(1, 1)]
    encode(ONE)
    tf.function(lambda x: encode(x))(ONE)
    assert counted(loops) == [(1, None)], "what was counted before it was traced is not known"
    encode(ONE)
    assert counted(loops) == [(1, None)]


def test_fit_traces_no_function_of_the_users(loops: Any) -> None:
    model = dense()
    model.compile("sgd", "mse")
    model(ONE)
    model.fit(ONE, np.ones((1, 2)), verbose=0)
    model(ONE)
    assert counted(loops) == [(1, 1), (1, 1)]


def test_a_model_with_code_of_the_users_is_counted_and_may_not_be_replaced(loops: Any) -> None:
    model = Own()
    for _ in range(2):
        model(ONE)
    keras.Sequential([keras.layers.Input((3,)), keras.layers.Lambda(lambda x: x)])(ONE)
    assert counted(loops) == [(2, None), (1, None)]
