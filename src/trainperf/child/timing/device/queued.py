"""The work that is queued on the devices at the end of each step: what marks tell besides time.

What a step adds to the queue is its work on the device, or a part of it: the rest was done while
the host was still at the step. A step that finds little queued at its end has waited itself: a
loss logged every tenth step. It takes longer by what else is hidden behind the devices. Blocks
that hold one wait more, or less, than their share of them read too much or too little, so they
are made of whole periods.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter

ADDED = 0.5
"""A step whose end finds less than this share of a step's device work queued has waited."""
SHARE = 0.6
"""So large a share of the distances between two waits agree, where they are regular."""
LEAST = 2
"""So many distances at least."""
KEPT = 400
"""Steps that are looked back on."""


class DeviceQueue:
    """The work that steps left on the devices, from the marks at their ends."""

    def __init__(self) -> None:
        self._added: list[tuple[int, float]] = []
        self._recovers = False

    def note_step(self, step: int, lag_before: float, lag_after: float, host_s: float) -> None:
        """Step number `step` took `host_s` seconds of the host; seconds queued at both its ends.

        What a step that does not wait adds to the queue is its own device time.
        """
        self._recovers = self._recovers and lag_after > lag_before
        if self._recovers:  # little is queued because we had waited
            return
        added = lag_after - max(0.0, lag_before - host_s)
        self._added.append((step, added))
        del self._added[:-KEPT]

    def drained(self) -> None:
        """We have waited for the devices: until the queue is as long again, it says nothing."""
        self._recovers = True

    def busy_s(self) -> float:
        """Seconds of a step that the devices are busy for, at least: the median of what is added.

        All of it where the host only queues the step, and goes on to the next one.
        """
        return max(0.0, statistics.median(added for _, added in self._added or [(0, 0.0)]))

    def every(self) -> int:
        """Steps from one wait to the next; 1 where the script waits in each, or in none."""
        usual = [added for _, added in self._added if added > 0]
        if not usual:
            return 1
        line = ADDED * statistics.median(usual)
        short = {step for step, added in self._added if added < line}
        waits = sorted(step for step in short if step - 1 not in short)  # not what follows a wait
        apart = Counter(after - before for before, after in itertools.pairwise(waits))
        if apart.total() < LEAST:
            return 1
        steps = apart.most_common(1)[0][0]
        agree = sum(many for distance, many in apart.items() if distance % steps == 0)
        return steps if agree >= SHARE * apart.total() else 1
