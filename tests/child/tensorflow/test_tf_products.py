"""The products of a Keras model are counted from its graph."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from trainperf.child.tensorflow.probes import _operations, matmul_rate
from trainperf.child.timing.probing import NotOffered

LAYERS = keras.layers


@pytest.mark.parametrize(
    ("layers", "shape", "flops"),
    [
        # none has a gradient of its input
        ([LAYERS.Dense(8, activation="relu"), LAYERS.Dense(2)], (16, 4), 32 * (2 * 32 + 3 * 16)),
        ([LAYERS.Conv2D(4, 3)], (2, 10, 10, 3), 2 * 2 * (2 * 64 * 4 * 27)),
        ([LAYERS.DepthwiseConv2D(3)], (2, 10, 10, 3), 2 * 2 * (2 * 64 * 3 * 9)),
    ],
)
def test_forward_and_backward_are_counted(
    layers: list[keras.Layer], shape: tuple[int, ...], flops: int
) -> None:
    inputs = keras.ops.convert_to_tensor(np.ones(shape, np.float32))
    model = keras.Sequential(layers)
    model(inputs)
    assert _operations(model, (inputs, None)) == flops


def test_loops_are_not_counted() -> None:
    inputs = keras.ops.ones((2, 5, 4))
    model = keras.Sequential([LAYERS.LSTM(3)])
    model(inputs)
    with pytest.raises(NotOffered, match="While"):
        _operations(model, (inputs,))


class TrainsItself(keras.Sequential):
    def train_step(self, data: object) -> dict[str, object]:
        return super().train_step(super().train_step(data) and data)  # type: ignore[no-any-return]


def test_a_step_of_the_scripts_own_has_no_rate() -> None:
    with pytest.raises(NotOffered, match="own computes"):
        matmul_rate(None, TrainsItself([LAYERS.Dense(1)]), lambda: None, 0.0)
