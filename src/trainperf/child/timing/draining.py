"""Drain the input of a loop alone: how soon batches come where no model waits for them."""

from __future__ import annotations

from typing import Any

MIN_DRAINED = 4
DRAINED_EPOCHS = 8
"""A drain ends after so many passes over short data: opening iterators by the hundred
leaves TensorFlow with threads to clean up that stall what comes next."""

FRUITLESS_EPOCHS = 4 * DRAINED_EPOCHS
"""After so many passes that gave too few batches, an epoch is too short to be drained: all of
its batches may come with its opening."""


class Exhausted(Exception):  # noqa: N818 - an outcome, not an error
    """The input gives no further batch to be timed; the words say why."""

    def __init__(self, reason: str = "the input ran out") -> None:
        super().__init__(reason)


def drain(driver: Any, seconds: float) -> tuple[list[tuple[float, int]], float]:
    """Take batches for `seconds`; return when so many had come, and when it began.

    The times are in seconds since the beginning, without what opening the input again
    took. Raises `Exhausted` where too few batches come, and what the input itself raises.
    """
    marks: list[tuple[float, int]] = []
    began = driver.clock()
    drained, chunk, restarting = 0, 1, 0.0
    epochs = driver.epochs_ended
    least = (2 if driver.plan.slow else MIN_DRAINED) + 2 * driver.buffered()
    while True:
        before = driver.clock()
        driver.restarts = 0.0
        got = driver.pull(chunk)
        if driver.restarts and chunk > 1:
            # The old iterator is torn down in the background and stalls what is
            # taken after it as well: such a run of batches counts for nobody.
            restarting += driver.clock() - before
            got, chunk = 0, chunk // 2
        else:
            restarting += driver.restarts
        drained += got
        now = driver.clock() - restarting
        if got:
            marks.append((round(now - began, 7), drained))
        passes = driver.epochs_ended - epochs
        if drained >= least and (now - began >= seconds or passes >= DRAINED_EPOCHS):
            return marks, began
        if drained < least and passes >= FRUITLESS_EPOCHS:
            raise Exhausted("an epoch has too few batches to time them apart from its opening")
        if now + restarting - before < 0.004 and chunk < 1024:
            chunk *= 2
