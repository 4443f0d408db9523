"""Keras's epochs on PyTorch go on past their end, with the batches of one iterator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from keras.src.trainers.epoch_iterator import EpochIterator
from keras.utils import PyDataset

from trainperf.child.keras.epochs import EagerEpochs
from trainperf.child.timing.drivers.loop_drivers import FitDriver


class Driver(FitDriver):
    """Wants so many more steps; what it does of its own accord is noted."""

    wants_more = resident = over = False

    def __init__(self, epochs: Any) -> None:
        self.epochs = epochs
        self.ended = 0
        self._iterator: Any = None

    def fit_epoch_over(self) -> bool:
        return self.over

    def between(self) -> bool:
        return False

    def ran_out(self, at: float, complete: bool = False) -> None:
        self.ended += 1


def fit_of() -> tuple[Any, EagerEpochs, Driver]:
    """The first step of a `fit` of three steps an epoch, as Keras makes it."""
    loops: Any = SimpleNamespace(
        training=SimpleNamespace(driver=None),
        passive=lambda: False,
        process=SimpleNamespace(clock=lambda: 0.0),
    )
    epochs = EagerEpochs(loops)
    epoch = EpochIterator(np.arange(6.0).reshape(6, 1), batch_size=2)
    iter(epoch)
    epochs.next(epoch, EpochIterator.__next__)
    epochs.begins()
    loops.training.driver = driver = Driver(epochs)
    driver._iterator = epoch._current_iterator
    return epoch, epochs, driver


def test_an_epoch_ends_as_written_once_nothing_more_is_wanted() -> None:
    epoch, epochs, driver = fit_of()
    steps = [epochs.next(epoch, EpochIterator.__next__)[0] for _ in range(2)]
    assert steps == [1, 2]
    with pytest.raises(StopIteration):
        epochs.next(epoch, EpochIterator.__next__)
    assert driver.ended == 1


def test_more_steps_come_of_the_iterator_that_keras_holds() -> None:
    epoch, epochs, driver = fit_of()
    given = [epochs.next(epoch, EpochIterator.__next__)[2] for _ in range(2)]
    driver.wants_more = True
    driver._iterator = iter([("one",), ("another",)])
    beyond = [epochs.next(epoch, EpochIterator.__next__) for _ in range(2)]
    assert len(given) == 2
    assert beyond == [(0, 0, [("one",)]), (0, 0, [("another",)])]
    assert not driver.ended
    assert epoch._current_iterator is None


def test_keras_is_told_between_two_steps_that_an_epoch_is_over() -> None:
    epoch, epochs, driver = fit_of()
    driver.over = True
    with pytest.raises(StopIteration):
        epochs.next(epoch, EpochIterator.__next__)
    driver.over = False
    iter(epoch)
    assert epochs.next(epoch, EpochIterator.__next__)[0] == 0


class Rows(PyDataset):
    """Three batches, made by workers."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return np.zeros((2, 1)), np.zeros(2)


def test_workers_that_keras_stopped_are_begun_again() -> None:
    epochs = EagerEpochs(SimpleNamespace())
    epochs._current = epoch = EpochIterator(Rows(workers=2))
    batches = epochs.again()
    assert len(next(batches)) == 2
    assert not epochs.stopped
    epoch.data_adapter.on_epoch_end()
    assert epochs.stopped
    assert len(list(epochs.again())) == 3
    epoch.data_adapter.on_epoch_end()


def test_an_epoch_that_was_begun_again_is_ended_with_its_input() -> None:
    epoch, epochs, driver = fit_of()
    for _ in range(2):
        epochs.next(epoch, EpochIterator.__next__)
    driver.wants_more = True
    driver._iterator = iter(())
    epoch.data_adapter._within_epoch, ended = True, []
    epoch.data_adapter.on_epoch_end = lambda: ended.append(1)
    with pytest.raises(StopIteration):
        epochs.next(epoch, EpochIterator.__next__)
    assert len(ended) == 2  # Keras's own count, and the input
