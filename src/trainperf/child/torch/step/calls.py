"""The calls of a step by time: each moment belongs to one part of one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...process.frames import Place
from ...timing.device import HostClock, Mark

SLACK_S = 0.01
"""A call that began so long before a step still counts for it: its clock is read later."""
LOG = "log"
"""What a library does to show a training or to put it on record."""
WITHIN = {
    "forward": ("optimizer", LOG),
    "backward": ("optimizer", "forward"),
    "optimizer": ("forward", "backward"),
    "zero_grad": ("optimizer", "forward", "backward"),
    "transfer": ("optimizer",),
    "graph": ("optimizer",),
    "sync": ("optimizer", LOG),
    LOG: ("optimizer",),
    "rest": ("optimizer",),
    "": ("optimizer",),
}
"""In which parts a part may stand of its own; elsewhere it belongs to what it stands in.
What an optimizer calls is its closure: forward and backward as elsewhere."""
SCALER = "scaler.step"
"""`GradScaler.step`: it takes time, but the update is the optimizer's step in it."""
TEXT = ("format", "print")
"""The calls by which a tensor goes into text."""


class Key(NamedTuple):
    """The key by which calls are summed; `of` is the id of the model or optimizer."""

    part: str
    what: str
    place: Place | None
    of: int = 0


@dataclass(slots=True, eq=False)
class Call:
    """A call that is under way or over; `counted` once it counts as one, in the step it began in.

    `seconds` are those that were measured elsewhere, `reads` how many tensors it has read.
    """

    part: str
    what: str
    place: Place | None
    of: int
    began: float
    seconds: float = 0.0
    counted: bool = False
    reads: int = 0

    @property
    def key(self) -> Key:
        return Key(self.part, self.what, self.place, self.of)


@dataclass(slots=True)
class Sum:
    """All calls of one kind: seconds and calls in total, `steps` in which there were any."""

    seconds: float = 0.0
    calls: int = 0
    steps: int = 0
    reads: int = 0


Known = list[tuple[Call, bool, float]]
"""Calls of a step, each with whether it counted in an earlier one, and its seconds so far."""


class Ledger:
    """The calls under way, and the sums over the steps that have ended.

    Each edge of a part is a mark on the clock of the devices, so that what was queued counts
    for the part that queued it, and what is hidden behind it for none; nothing waits. `settle`
    reads the marks.
    """

    def __init__(self, device: HostClock) -> None:
        self.open: list[Call] = []
        self.steps = 0
        self.seconds = 0.0
        self.sums: dict[Key, Sum] = {}
        self._device = device
        self._calls: list[Call] = []
        self._spans: list[tuple[Call, Mark, Mark]] = []
        self._unsettled: list[Callable[[], None]] = []
        self._at = Mark(0.0)

    def begin(self) -> None:
        """The first step begins: nothing before it is charged to a part."""
        self._at = self._device.mark()

    def takes(self, part: str) -> bool:
        """Whether a call that begins now is a part of its own."""
        return not self.open or self.open[-1].part in WITHIN[part]

    def enter(self, part: str, what: str, place: Place | None, of: int = 0) -> Call:
        """A part begins: what it stands in is charged up to here."""
        call = Call(part, what, place, of, self._edge().host)
        self.open.append(call)
        self._calls.append(call)
        return call

    def leave(self, call: Call) -> None:
        """A part ends, and with it whatever in it was left without a word."""
        if call not in self.open:
            return
        self._edge()
        while self.open.pop() is not call:
            pass

    def read(self) -> None:
        """A tensor is read on the host: by what is under way, if that looks on."""
        if self.open and self.open[-1].part == LOG:
            self.open[-1].reads += 1

    def add(self, part: str, seconds: float) -> None:
        """Charge a part with time that was measured elsewhere and ends now.

        Where work is queued it is charged with what passes on the devices since the last edge.
        """
        since, now = self._at, self._device.mark()
        call = Call(part, "", None, 0, now.host - seconds, seconds)
        if self._device.asynchronous:
            call.seconds = 0.0
            self._spans.append((call, since, now))
            self._at = now
        self._calls.append(call)

    def step_ended(self, began: Mark, ended: Mark, kept: bool = True) -> None:
        """Charge what was called between two marks to the step that ends now.

        With `kept` false nothing of it counts: something else than a step took place.
        """
        self._edge()
        calls: Known = [(call, call.counted, call.seconds) for call in self._calls]
        spans, self._spans, self._calls = self._spans, [], []
        self.steps += kept
        self._unsettled.append(lambda: self._settle(began, ended, calls, spans, kept))
        self.open = [call for call in self.open if not call.counted]  # one that has raised
        for call in self.open:
            call.counted, call.seconds = True, 0.0
            self._calls.append(call)
        if not self._device.asynchronous:
            self.settle()

    def settle(self) -> None:
        """Read the marks of the steps that have ended; waits until they have passed."""
        unsettled, self._unsettled = self._unsettled, []
        for settle in unsettled:
            settle()

    def _settle(
        self,
        began: Mark,
        ended: Mark,
        calls: Known,
        spans: list[tuple[Call, Mark, Mark]],
        kept: bool,
    ) -> None:
        taken = {id(call): seconds for call, _, seconds in calls}
        for call, first, last in spans:
            taken[id(call)] = taken.get(id(call), 0.0) + self._between(first, last)
        if not kept:
            return
        self.seconds += self._between(began, ended)
        seen = set()
        for call, counted, _ in calls:
            if not call.part or not (counted or call.began >= began.host - SLACK_S):
                continue
            total = self.sums.setdefault(call.key, Sum())
            total.seconds += taken[id(call)]
            total.calls += not counted
            total.reads += 0 if counted else call.reads
            if call.key not in seen and not counted:
                total.steps += 1
                seen.add(call.key)

    def _between(self, first: Mark, last: Mark) -> float:
        return self._device.at(last) - self._device.at(first)

    def _edge(self) -> Mark:
        now = self._device.mark()
        if self.open:
            self._spans.append((self.open[-1], self._at, now))
        self._at = now
        return now
