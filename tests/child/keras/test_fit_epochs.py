"""Keras's epochs go on past their end: with the iterator that Keras would take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator

from trainperf.child.keras.epochs import Epochs


def four() -> Any:
    return tf.data.Dataset.range(4).batch(2)


def generated() -> Any:
    for number in range(100):
        yield (tf.constant([[number]]),)


def given(epoch: Any, steps: int) -> list[Any]:
    """The iterators that a `fit` which wants more gets for so many steps."""
    driver = SimpleNamespace(
        end_epoch=lambda: False,
        resident=False,
        wants_more=True,
        epoch_went_on=lambda iterator: None,
    )
    epochs = Epochs(SimpleNamespace(training=SimpleNamespace(driver=driver)))
    driver.epochs = epochs
    epoch._epoch_iterator = epoch._enumerate_iterator()
    found = []
    for _ in range(steps):
        found.append(epochs.next(epoch, lambda one: next(one._epoch_iterator))[2])
        epochs._current = epochs._latest  # the train function was called
    return found


@pytest.mark.parametrize(
    ("data", "steps_per_epoch", "opened"),
    [
        (lambda: four().repeat(), 2, 1),
        (four, None, 3),
        (lambda: tf.zeros((4, 1)), None, 3),
        (generated, 2, 1),
    ],
    ids=["a repeated dataset", "a dataset", "an array", "a generator"],
)
def test_the_iterator_of_a_repeated_dataset_serves_all_epochs(data, steps_per_epoch, opened):
    epoch = TFEpochIterator(
        tf.distribute.get_strategy(), x=data(), batch_size=2, steps_per_epoch=steps_per_epoch
    )
    found = given(epoch, 6)
    assert len({id(one) for one in found}) == opened
    next(found[-1])  # it has batches left
