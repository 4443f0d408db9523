"""A leg's turns, read from what its processes wrote of them. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trainperf.model import Event


@dataclass(frozen=True)
class Slice:
    """A leg's turn: `steps` turns of its loop in `seconds`.

    `work` is in steps of the unchanged script; `own_s` is what trainperf's own hooks
    took of it, in the mean of the ranks. `epochs` is how often its input was opened
    anew; None where slices do not hold whole epochs. `retries` counts how often the memory of
    its device ran short meanwhile: what that took is no step's.
    """

    seconds: float
    steps: int
    work: float
    own_s: float
    epochs: int | None = None
    retries: int = 0

    @property
    def rate(self) -> float:
        """Work per second."""
        return self.work / self.seconds


def slice_of(
    ranks: Sequence[Sequence[Event]], turn: int, work_per_step: float, work: float = 1.0
) -> Slice | None:
    """The slice of one turn, from the events of the processes that train, rank 0's first.

    A turn of its loop does `work_per_step`, each update in it `work`.

    None if one of them timed no step in it, as where each opened its input anew. It is
    the slowest rank's; one may have left a step out of its times that others did not.
    """
    blocks = [_of_turn("block", events, turn) for events in ranks]
    whole = [one for one in blocks if one is not None and one["d"] > 0]
    if not blocks or len(whole) < len(blocks):
        return None
    slowest = max(whole, key=lambda one: float(one["d"] / one["n"]))
    steps = int(slowest["n"])
    counted = _of_turn("work", ranks[0], turn)
    done = steps * work_per_step if counted is None else work * float(counted["n"])
    own_s = statistics.fmean(one["own"] / one["n"] for one in whole) * steps
    opened = _of_turn("epochs", ranks[0], turn)
    epochs = None if opened is None else int(opened["n"])
    short = [_of_turn("retries", events, turn) for events in ranks]
    retries = sum(int(one["n"]) for one in short if one is not None)
    return Slice(slowest["d"], steps, done, own_s, epochs, retries)


def _of_turn(kind: str, events: Sequence[Event], turn: int) -> Event | None:
    """The event of a turn, among the last of a process."""
    for event in reversed(events):
        if event["e"] == kind and event["b"] == turn:
            return event
        if event["e"] == "block" and event["b"] < turn:
            break
    return None
