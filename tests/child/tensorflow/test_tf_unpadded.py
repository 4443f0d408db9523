"""A Keras model is asked whether it gives the same without the padding of its batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from trainperf.child.tensorflow.models import record_padding
from trainperf.child.tensorflow.unpadded import masks_padding, used

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


def test_columns_in_use_are_those_between_zeros():
    assert used(ROWS) == (0, 31)
    assert used(ROWS[:, ::-1]) == (9, 40)
    assert used(np.zeros((2, 5), int)) == (0, 1)


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


def test_outputs_that_hardly_differ_yet_are_told_apart():
    import keras

    flat = [lstm(), keras.layers.Dense(1, activation="sigmoid", kernel_initializer="zeros")]
    barely = model(*flat, masks=False)
    barely.layers[-1].kernel.assign(barely.layers[-1].kernel + 1e-3)
    assert masks_padding(barely, ROWS) is False


def test_outputs_of_each_step_and_models_with_a_memory_are_not_asked():
    assert masks_padding(model(lstm(return_sequences=True)), ROWS) is None
    assert masks_padding(model(lstm()), ROWS[:, :2] + 1) is None

    class Remembers:
        stateful = True

    class Holds:
        def _flatten_layers(self):
            return [Remembers()]

    assert masks_padding(Holds(), ROWS) is None


class Driver:
    """Stands in for the driver of `fit`, with one batch at hand."""

    off = False

    def __init__(self, batch: Any) -> None:
        self.model, self.batch = model(lstm()), batch
        self.process = self.record = self
        self.written: dict[str, Any] = {}

    def recent_batches(self) -> list[Any]:
        return [self.batch]

    def write(self, kind: str, **event: Any) -> None:
        self.written = event


@pytest.mark.parametrize(
    ("others", "along"), [((np.zeros(8),), [0]), ((np.zeros((8, 40)), np.zeros(8)), [0, 1])]
)
def test_what_goes_along_with_the_steps_of_a_pair_is_recorded(others, along):
    import tensorflow as tf

    driver: Any = Driver(tuple(tf.constant(each) for each in (ROWS, *others)))
    record_padding(driver)
    assert driver.written["masked"] is True
    assert driver.written["place"] == {"kind": "tuple", "at": 0, "along": along}


def test_of_inputs_with_names_no_place_is_recorded():
    import tensorflow as tf

    driver: Any = Driver(({"text": tf.constant(ROWS)}, tf.zeros(8)))
    record_padding(driver)
    assert driver.written["padded"] == 40
    assert driver.written["place"] is None
