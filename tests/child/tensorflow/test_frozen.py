"""Which part of a model does not train, and whether it may be computed once."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from trainperf.child.tensorflow.models import frozen

layers = keras.layers


def base(*inner: Any) -> Any:
    """A frozen network of three layers, and what else is asked for."""
    made = keras.Sequential(
        [keras.Input((8,)), layers.Dense(32), layers.BatchNormalization(), *inner, layers.Dense(16)]
    )
    made.trainable = False
    return made


def head_on(*first: Any) -> Any:
    return keras.Sequential([keras.Input((8,)), *first, layers.Dropout(0.2), layers.Dense(2)])


def test_the_frozen_part_ends_where_something_is_random_or_trains() -> None:
    found = frozen(head_on(layers.Rescaling(0.5), base()))
    assert found == {
        "layers": 2,
        "parameters": 9 * 32 + 4 * 32 + 33 * 16,
        "trained": 17 * 2,
        "bytes_per_sample": 16 * 4,
    }


def thawed() -> Any:
    made = base()
    made.trainable = True
    return head_on(made)


class Own(keras.layers.Layer):
    """One of the user's: nobody knows what it draws."""

    def call(self, x: Any) -> Any:
        return x


def past_the_base() -> Any:
    inputs = keras.Input((8,))
    x = layers.Dense(4)(base()(inputs))
    return keras.Model(inputs, layers.Dense(2)(layers.Concatenate()([x, inputs])))


class Subclassed(keras.Model):
    """Its layers are not known to stand in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.head = base(), layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.head(self.base(x))


def subclassed() -> Any:
    made = Subclassed()
    made.build((None, 8))
    return made


@pytest.mark.parametrize(
    "model",
    [
        thawed,
        lambda: head_on(layers.Rescaling(0.5)),
        lambda: head_on(layers.GaussianNoise(0.1), base()),
        lambda: head_on(base(layers.Dropout(0.3))),
        lambda: head_on(Own(), base()),
        lambda: head_on(layers.Lambda(lambda x: x), base()),
        past_the_base,
        subclassed,
    ],
)
def test_what_may_change_from_epoch_to_epoch_is_not_frozen(model: Any) -> None:
    assert frozen(model()) is None
