"""Device time: marks behind queued work, and what is read from them once they have passed.

With h seconds of the host a step hidden behind d seconds of its device, n steps that begin
with nothing queued and end when all is done take n·d + h. A clock that waits at both ends
reads (n·d + h)/n for what takes max(h, d) a step in a running pipeline. So time is taken
between marks that are queued with the work; where a framework has none, from n and from 2n
steps in turn: in T(2n) - T(n) what filling and draining the queue takes cancels.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..process.recorder import Recorder


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

    def between(many: int) -> float:
        began = device.mark()
        for _ in range(many):
            run()
        if not device.marks:
            device.wait()
        ended = device.mark()
        device.wait()
        return (device.at(ended) - device.at(began)) / many

    if not device.marks:
        device.wait()
        once = between(calls)
        return max(0.0, 2 * between(2 * calls) - once)
    if device.asynchronous:
        run()
    return between(calls)


# The times of steps and blocks. Nothing waits between two steps that count: where work may be
# queued, what is to be recorded of them is put off until the next pause.

_ADDED = 0.5
"""A step whose end finds less than this share of a step's device work queued has waited."""
_SHARE = 0.6
"""So large a share of the distances between two waits agree, where they are regular."""
_LEAST = 2
"""So many distances at least."""
_KEPT = 400
"""Steps that are looked back on."""


class StepTimes:
    """Records steps, ends of epochs and gaps on the clock of the devices, and times blocks.

    `queue` is what the marks tell of the work that is queued. A block lasts from `begin` to
    the mark that `seconds` is given, without what was laid `aside` meanwhile.
    """

    def __init__(self, device: HostClock, record: Recorder) -> None:
        self.queue = DeviceQueue()
        self._device = device
        self._record = record
        self._unread: deque[tuple[Mark, Callable[[], None]]] = deque()
        self._began: Mark | None = None
        self._aside: list[tuple[Mark, Mark]] = []
        self._shorter: tuple[float, int] | None = None
        self._steps = 0

    def step(self, phase: str, block: int, began: Mark, ended: Mark, busy: float) -> None:
        """Record a step of a block; `busy` are the seconds within its own call."""
        self._steps += 1
        number = self._steps

        def write() -> None:
            first, last = self._device.at(began), self._device.at(ended)
            self._record.step(phase, block, first, last, busy)
            if self._device.asynchronous and self._device.marks:
                host_s = ended.host - began.host
                self.queue.note_step(number, first - began.host, last - ended.host, host_s)

        self._tell(ended, write)

    def gap(self, began: Mark, ended: Mark, aside_s: float) -> None:
        """Record what passed between two epochs, but for the seconds of it that are laid aside."""

        def write() -> None:
            at = self._device.at(began)
            seconds = max(0.0, self._device.at(ended) - at - aside_s)
            self._record.write("between", s=at, seconds=seconds, host=[began.host, ended.host])

        self._tell(ended, write)

    def epoch(self, at: Mark) -> None:
        self._tell(at, lambda: self._record.write("epoch", s=self._device.at(at)))

    def read(self) -> None:
        """Record what was put off; waits until its marks have passed."""
        while self._unread:
            self._unread.popleft()[1]()

    def begin(self, at: Mark) -> None:
        self._began = at
        self._aside.clear()

    def lay_aside(self, began: Mark, ended: Mark) -> None:
        """Leave the time between two marks out of the block."""
        if self._began is not None:
            self._aside.append((began, ended))

    def block(self, ended: Mark, steps: int) -> tuple[float, int] | None:
        """The seconds and steps of the block that ends at a mark; waits for all that is queued.

        Without marks that are queued a block is run from wait to wait, and then with twice its
        steps: None after the first time, the difference after the second.
        """
        assert self._began is not None
        if not self._device.marks:
            self._device.wait()
            ended = self._device.mark()
        self._device.wait()
        self.read()
        self.queue.drained()
        taken = [self._device.at(end) - self._device.at(start) for start, end in self._aside]
        seconds = self._device.at(ended) - self._device.at(self._began) - sum(taken)
        self._began = None
        if self._device.marks:
            return seconds, steps
        if self._shorter is None:
            self._shorter = seconds, steps
            return None
        shorter, self._shorter = self._shorter, None
        return max(0.0, seconds - shorter[0]), steps - shorter[1]

    def drop(self) -> None:
        """The block is over, and was not timed to its end."""
        self._began = self._shorter = None
        self._aside.clear()

    def _tell(self, after: Mark, record: Callable[[], None]) -> None:
        """Record once a mark has passed: now, at one of the next steps, or in the next pause."""
        self._unread.append((after, record))
        while self._unread and self._device.passed(self._unread[0][0]):
            self._unread.popleft()[1]()


# The work that is queued on the devices at the end of each step: what marks tell besides time.
#
# What a step adds to the queue is its work on the device, or a part of it: the rest was done while
# the host was still at the step. A step that finds little queued at its end has waited itself: a
# loss logged every tenth step. It takes longer by what else is hidden behind the devices. Blocks
# that hold one wait more, or less, than their share of them read too much or too little, so they
# are made of whole periods.


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
        del self._added[:-_KEPT]

    def drained(self) -> None:
        """We have waited for the devices: until the queue is as long again, it says nothing."""
        self._recovers = True

    def busy_s(self) -> float:
        """Seconds of a step that the devices are busy for, at least: the median of what is added.

        All of it where the host only queues the step, and goes on to the next one. What is queued
        behind other ranks counts as well, whether or not kernels run.
        """
        return max(0.0, statistics.median(added for _, added in self._added or [(0, 0.0)]))

    def every(self) -> int:
        """Steps from one wait to the next; 1 where the script waits in each, or in none."""
        usual = [added for _, added in self._added if added > 0]
        if not usual:
            return 1
        line = _ADDED * statistics.median(usual)
        short = {step for step, added in self._added if added < line}
        waits = sorted(step for step in short if step - 1 not in short)  # not what follows a wait
        apart = Counter(after - before for before, after in itertools.pairwise(waits))
        if apart.total() < _LEAST:
            return 1
        steps = apart.most_common(1)[0][0]
        agree = sum(many for distance, many in apart.items() if distance % steps == 0)
        return steps if agree >= _SHARE * apart.total() else 1
