"""Device time: marks behind queued work, and how long work takes where it runs later.

With h seconds of the host a step hidden behind d seconds of its device, n steps that begin
with nothing queued and end when all is done take n·d + h. A clock that waits at both ends
reads (n·d + h)/n for what takes max(h, d) a step in a running pipeline. So time is taken
between marks that are queued with the work; where a framework has none, from n and from 2n
steps in turn: in T(2n) - T(n) what filling and draining the queue takes cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class Mark:
    """A time stamp behind the work that was queued so far; `host` is when it was queued.

    `queued` are the events that stand for it on each stream in use, `anchor` a mark that passed
    as it was queued. Both are there only where work may be queued.
    """

    __slots__ = ("anchor", "host", "queued")

    def __init__(
        self, host: float, queued: Mapping[Any, Any] | None = None, anchor: Mark | None = None
    ) -> None:
        self.host = host
        self.queued = queued
        self.anchor = anchor


class HostClock:
    """The clock of the devices that the loop uses: the host's own, where they have done their work
    when a call returns.

    Subclasses are for devices whose work may be queued. Where no mark is queued with it, no time
    can be taken in a running pipeline.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    @property
    def name(self) -> str:
        """Whose clock the times are from."""
        return "the host's clock"

    @property
    def asynchronous(self) -> bool:
        """Whether work may be queued: a call returns before the devices have done it."""
        return False

    @property
    def marks(self) -> bool:
        """Whether a mark passes when the work before it was done, and not when it was made."""
        return True

    def mark(self) -> Mark:
        """A time stamp behind the work queued so far, on every device in use; returns at once."""
        return Mark(self._clock())

    def at(self, mark: Mark) -> float:
        """When the last device passed it, in seconds of the host's clock; waits until then."""
        return mark.host

    def passed(self, mark: Mark) -> bool:
        """Whether all devices have passed it; waits for none."""
        return True

    def wait(self) -> None:
        """Wait until all devices in use have done what was queued."""


def seconds_of(device: HostClock, calls: int, run: Callable[[], object]) -> float:
    """Seconds of `run` as one of many calls in a row, from so many; waits at the end.

    One more goes before them where work is queued, so that the pipeline runs; without marks
    twice as many follow.
    """
    if not device.asynchronous:
        return _between(device, calls, run)
    if device.marks:
        run()
        return _between(device, calls, run)
    device.wait()
    once = _between(device, calls, run)
    return max(0.0, 2 * _between(device, 2 * calls, run) - once)


def _between(device: HostClock, calls: int, run: Callable[[], object]) -> float:
    """Seconds of each of so many calls, between two marks; all is done afterwards."""
    began = device.mark()
    for _ in range(calls):
        run()
    if not device.marks:
        device.wait()
    ended = device.mark()
    device.wait()
    return (device.at(ended) - device.at(began)) / calls
