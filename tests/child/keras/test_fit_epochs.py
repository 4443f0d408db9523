"""Keras's epochs go on past their end: with the iterator that Keras would take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainperf.child.keras.epochs import Epochs


class Epoch:
    """One of Keras's, of two steps; `opened` counts the iterators that its data was asked for."""

    steps_per_execution = 1

    def __init__(self, steps_per_epoch: int | None, batches: int | None) -> None:
        self.steps_per_epoch = steps_per_epoch
        self.data_adapter = SimpleNamespace(num_batches=batches, on_epoch_end=lambda: None)
        self.opened = 0
        self._current_iterator: Any = None
        self._epoch_iterator: Any = None

    def _enumerate_iterator(self) -> Any:
        if self._current_iterator is None or self.steps_per_epoch is None:
            self.opened += 1
            self._current_iterator = object()
        for step in range(2):
            yield step, step, self._current_iterator


def three_epochs(epoch: Epoch) -> None:
    driver = SimpleNamespace(
        end_epoch=lambda: False,
        resident=False,
        wants_more=True,
        epoch_went_on=lambda iterator: None,
    )
    epochs = Epochs(SimpleNamespace(training=SimpleNamespace(driver=driver)))  # type: ignore[arg-type]
    driver.epochs = epochs
    epoch._epoch_iterator = epoch._enumerate_iterator()
    for _ in range(6):
        epochs.next(epoch, lambda one: next(one._epoch_iterator))
        epochs.begins()


@pytest.mark.parametrize(
    ("steps_per_epoch", "batches", "opened"),
    [
        (2, None, 1),  # a dataset that is repeated
        (None, 2, 3),
        (2, 2, 3),
        (None, None, 3),
    ],
)
def test_the_iterator_of_a_repeated_dataset_serves_all_epochs(
    steps_per_epoch: int | None, batches: int | None, opened: int
) -> None:
    epoch = Epoch(steps_per_epoch, batches)
    three_epochs(epoch)
    assert epoch.opened == opened
