"""The calls of a step by time: each moment belongs to one part of one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

from ...process import frames

SLACK_S = 0.01
"""A call that began so long before a step still counts for it: its clock is read later."""
WITHIN = {
    "forward": ("optimizer",),
    "backward": ("optimizer", "forward"),
    "optimizer": ("forward", "backward"),
    "zero_grad": ("optimizer", "forward", "backward"),
    "transfer": ("optimizer",),
    "graph": ("optimizer",),
    "sync": ("optimizer",),
    "rest": ("optimizer",),
    "": ("optimizer",),
}
"""In which parts a part may stand of its own; elsewhere it belongs to what it stands in.
What an optimizer calls is its closure: forward and backward as elsewhere."""
EVALUATION = "evaluation"
SCALER = "scaler.step"
"""`GradScaler.step`: it takes time, but the update is the optimizer's step in it."""
TEXT = ("format", "print")
"""What a tensor is asked for where it goes into text."""


class Place(NamedTuple):
    """Where a frame is, in the names of a frame: what `frames.site` asks for."""

    f_code: CodeType
    f_lasti: int
    f_lineno: int


def site(place: Place | None) -> dict[str, Any] | None:
    """Describe a place as `frames.site` describes a frame."""
    return frames.site(place)  # type: ignore[arg-type]


class Key(NamedTuple):
    """What calls are summed by; `of` is the id of the model or optimizer."""

    part: str
    what: str
    place: Place | None
    of: int = 0


@dataclass(slots=True)
class Call:
    """A call that is under way or over; `seconds` without the parts that stand in it."""

    part: str
    what: str
    place: Place | None
    of: int
    began: float
    seconds: float = 0.0
    counted: bool = False  # as a call, in the step it began in

    @property
    def key(self) -> Key:
        """What it is summed by."""
        return Key(self.part, self.what, self.place, self.of)


@dataclass(slots=True)
class Sum:
    """All calls of one kind: seconds and calls in total, `steps` in which there were any."""

    seconds: float = 0.0
    calls: int = 0
    steps: int = 0


@dataclass
class Ledger:
    """The calls under way, and the sums over the steps that have ended.

    `sync` waits for the device: each edge of a part does, so that queued kernels count
    for the part that queued them. `outside` has the calls that stood in no step.
    """

    clock: Callable[[], float]
    sync: Callable[[], None]
    open: list[Call] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    sums: dict[Key, Sum] = field(default_factory=dict)
    outside: dict[Key, Sum] = field(default_factory=dict)
    _calls: list[Call] = field(default_factory=list)
    _at: float = 0.0

    def takes(self, part: str) -> bool:
        """Whether a call that begins now is a part of its own."""
        return not self.open or self.open[-1].part in WITHIN[part]

    def enter(self, part: str, what: str, place: Place | None, of: int = 0) -> Call:
        """A part begins: what it stands in is charged up to here."""
        call = Call(part, what, place, of, self._edge())
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

    def add(self, part: str, seconds: float) -> None:
        """Charge a part with time that was measured elsewhere and ends now."""
        self._calls.append(Call(part, "", None, 0, self.clock() - seconds, seconds))

    def step_ended(self, seconds: float, kept: bool = True) -> None:
        """Charge what was called since `seconds` ago to the step that ends now.

        With `kept` false nothing of it counts: something else than a step took place.
        """
        began = self.clock() - seconds - SLACK_S
        self._edge()
        calls, self._calls = self._calls, []
        if kept:
            self.steps += 1
            self.seconds += seconds
            self._count([call for call in calls if call.began >= began or call.counted], self.sums)
        self._count([call for call in calls if call.began < began], self.outside)
        self.open = [call for call in self.open if not call.counted]  # one that has raised
        for call in self.open:
            call.seconds, call.counted = 0.0, True
            self._calls.append(call)

    def _edge(self) -> float:
        self.sync()
        now = self.clock()
        if self.open:
            self.open[-1].seconds += now - self._at
        self._at = now
        return now

    def _count(self, calls: list[Call], sums: dict[Key, Sum]) -> None:
        seen = set()
        for call in calls:
            if not call.part:
                continue
            one = sums.setdefault(call.key, Sum())
            one.seconds += call.seconds
            one.calls += not call.counted
            if call.key not in seen and not call.counted:
                one.steps += 1
                seen.add(call.key)
