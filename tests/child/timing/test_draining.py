"""How soon the batches of an input come, where it is drained alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kit.child import Clock
from trainperf.child.timing.phases import DRAINED_EPOCHS, MIN_DRAINED, Exhausted, drain

BATCH_S = 2.0**-4
REOPEN_S = 0.5


class Input:
    """A driver over an input of `length` batches, opened again as often as `opens` says."""

    def __init__(self, length, opens=1000, batch_s=BATCH_S):
        self.clock = Clock()
        self.plan = SimpleNamespace(slow=False)
        self.restarts = 0.0
        self.epochs_ended = 0
        self._length = self._left = length
        self._opens = opens
        self._batch_s = batch_s

    def buffered(self) -> int:
        return 0

    def pull(self, count: int) -> int:
        for _ in range(count):
            if not self._left:
                if self.epochs_ended == self._opens:
                    raise Exhausted
                self.epochs_ended += 1
                self._left = self._length
                self.restarts += REOPEN_S
                self.clock.tick(REOPEN_S)
            self._left -= 1
            self.clock.tick(self._batch_s)
        return count


def drained(source: Any, seconds: float = 1.0) -> list[tuple[float, int]]:
    marks, began = drain(source, seconds)
    assert began == 1000.0
    return marks


@pytest.mark.parametrize(("batch_s", "length"), [(BATCH_S, 5), (2.0**-14, 3000)])
def test_what_opening_the_input_again_takes_is_in_no_time(batch_s: float, length: int) -> None:
    source = Input(length, batch_s=batch_s)
    seconds, count = drained(source)[-1]
    assert source.epochs_ended >= 3
    assert seconds == pytest.approx(batch_s * count, rel=1e-3)


def test_short_data_is_passed_over_so_many_times_only() -> None:
    source = Input(2)
    drained(source, 1000.0)
    assert source.epochs_ended == DRAINED_EPOCHS


def test_an_input_that_has_no_more_says_so() -> None:
    with pytest.raises(Exhausted):
        drain(Input(20, opens=0), 1000.0)


class OpenedWithItsFirst(Input):
    """The first batch of an epoch comes with the opening, and is not counted: as in TensorFlow."""

    def pull(self, count: int) -> int:
        ended = self.epochs_ended
        return super().pull(count) - (self.epochs_ended - ended)


def test_epochs_of_one_batch_are_not_drained_for_ever() -> None:
    with pytest.raises(Exhausted, match="too few batches"):
        drain(OpenedWithItsFirst(1), 0.1)
    assert drained(OpenedWithItsFirst(3), 0.1)[-1][1] >= MIN_DRAINED
