"""An emulated accelerator: calls return at once, and its work is done later, in order.

Nothing runs: all is arithmetic on the moments at which work would end. So a test may drive it
by a clock that only the test moves, or in real time with `time.monotonic` and `time.sleep`.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable

DEPTH = 1024
"""Launches that a device takes before a further one holds the host up, as CUDA's queue does."""


class Device:
    """One accelerator: streams side by side, each first in, first out.

    `depth` launches may wait at a time. `clock` tells the host's seconds, and `sleep` lets
    the host wait for so many of them.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        depth: int = DEPTH,
    ) -> None:
        self.clock = clock
        self.depth = depth
        self._sleep = sleep
        self._queued: list[float] = []  # when each launch ends, the earliest first
        self.default = Stream(self)
        self.streams = [self.default]
        self.launches = 0

    def stream(self) -> Stream:
        """Another stream beside the default one."""
        made = Stream(self)
        self.streams.append(made)
        return made

    def launch(self, seconds: float, stream: Stream | None = None) -> None:
        """Queue work of so many seconds, and return; waits where the queue is full."""
        while self._full():
            self.sleep_until(self._queued[0])
        on = stream or self.default
        on.free_at = max(on.free_at, self.clock()) + seconds
        heapq.heappush(self._queued, on.free_at)
        self.launches += 1

    def synchronize(self) -> None:
        """Let the host wait until all streams have done what was queued."""
        self.sleep_until(max(stream.free_at for stream in self.streams))

    def sleep_until(self, at: float) -> None:
        """Let the host wait until `at`."""
        while (left := at - self.clock()) > 0:
            self._sleep(left)

    def _full(self) -> bool:
        now = self.clock()
        while self._queued and self._queued[0] <= now:
            heapq.heappop(self._queued)
        return len(self._queued) >= self.depth


class Stream:
    """A queue of work, all of it done by `free_at`, in order."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.free_at = -float("inf")

    def record(self) -> Event:
        """Mark the end of what was queued so far."""
        return Event(self)

    def wait(self, event: Event) -> None:
        """Do nothing of what is queued from here on before `event` has passed."""
        self.free_at = max(self.free_at, event.at)

    def synchronize(self) -> None:
        """Let the host wait until what was queued is done."""
        self.device.sleep_until(self.free_at)


class Event:
    """The moment at which a stream will have done what was queued so far."""

    def __init__(self, stream: Stream) -> None:
        self.device = stream.device
        self.at = max(stream.free_at, stream.device.clock())

    def query(self) -> bool:
        """Whether it has passed."""
        return self.device.clock() >= self.at

    def synchronize(self) -> None:
        """Let the host wait until it has passed."""
        self.device.sleep_until(self.at)
