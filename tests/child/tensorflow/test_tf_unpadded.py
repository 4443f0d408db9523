"""A Keras model is asked whether it gives the same without the padding of its batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainperf.child.tensorflow.models import masks_padding

ROWS = np.zeros((8, 40), "int32")
for row, length in enumerate([5, 7, 3, 14, 20, 2, 9, 31]):
    ROWS[row, :length] = np.arange(1, length + 1)


def model(*layers: Any, masks: bool = True, steps: int | None = None) -> Any:
    import keras

    keras.utils.set_random_seed(0)
    embedding = keras.layers.Embedding(50, 8, mask_zero=masks)
    return keras.Sequential([keras.Input((steps,)), embedding, *layers])


def lstm(**how: Any) -> Any:
    import keras

    return keras.layers.Bidirectional(keras.layers.LSTM(4, **how))


def test_a_masked_recurrent_model_gives_the_same():
    assert masks_padding(model(lstm()), ROWS) is True
    assert masks_padding(model(lstm()), np.ascontiguousarray(ROWS[:, ::-1])) is True
    assert masks_padding(model(lstm(), steps=40), ROWS) is True


def test_a_model_that_reads_its_padding_gives_something_else():
    import keras

    assert masks_padding(model(lstm(), masks=False), ROWS) is False
    pooled = keras.layers.GlobalMaxPooling1D()
    with pytest.warns(UserWarning, match="mask"):
        assert masks_padding(model(pooled), ROWS) is False
