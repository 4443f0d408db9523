"""Find the training loop among the events of a recording."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import ParamSpec, TypeVar

import msgspec

from trainperf.errors import TrainperfError
from trainperf.model import Event, Missing, Recording, Site
from trainperf.recording.cells import spot

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F")


def host_times(gap: Event) -> tuple[float, float]:
    """When the host came to a gap between epochs and when it left it, its devices maybe later."""
    first, last = gap.get("host") or (gap["s"], gap["s"] + gap["seconds"])
    return float(first), float(last)


class NoLoop(TrainperfError):  # noqa: N818 - names an outcome
    """No training loop was seen. `seen` says what was seen instead, line by line."""

    def __init__(self, message: str, hint: str, seen: tuple[str, ...]) -> None:
        super().__init__(message, hint)
        self.seen = seen


class Parts:
    """Reads the parts of a record apart: a fault in one costs that part, not the report.

    `faults` says which could not be read, and why, in sentences for the reader. What is meant
    to end a diagnosis, a `TrainperfError`, does.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []

    def read(
        self, name: str, reader: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | Missing:
        """Return what `reader` does, or why it could not."""
        try:
            return reader(*args, **kwargs)
        except TrainperfError:
            raise
        except Exception as error:
            fault = f"{name} could not be read: {type(error).__name__}: {error}"
            self.faults.append(fault)
            return Missing(fault)

    def read_or(
        self, absent: F, name: str, reader: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | F:
        """Return what `reader` does, or `absent` where it could not."""
        found = self.read(name, reader, *args, **kwargs)
        return absent if isinstance(found, Missing) else found


@dataclass(frozen=True)
class Observed:
    """The events of the process that trained, and those of its main training loop.

    `start` is the event that began the loop; `loop` holds what followed it, up to
    the next loop.
    """

    process: tuple[Event, ...]
    start: Event
    loop: tuple[Event, ...]

    def of(self, kind: str) -> Iterator[Event]:
        """The events of the loop of one kind, in order."""
        return iter(self._of_loop.get(kind, ()))

    def all(self, kind: str) -> Sequence[Event]:
        """The events of the whole process of one kind, in order."""
        return self._of_process.get(kind, ())

    @cached_property
    def _of_loop(self) -> dict[str, list[Event]]:
        return _by_kind(self.loop)

    @cached_property
    def _of_process(self) -> dict[str, list[Event]]:
        return _by_kind(self.process)

    def first(self, kind: str) -> Event | None:
        """The first event of the whole process of one kind."""
        return next(iter(self.all(kind)), None)

    def last(self, kind: str) -> Event | None:
        """The last event of the whole process of one kind: later ones replace earlier ones."""
        return next(reversed(self.all(kind)), None)

    @cached_property
    def place(self) -> Event | None:
        """The last word of the process on which rank of a job it is; None if it is none."""
        return next((event for event in reversed(self.all("rank")) if "rank" in event), None)

    @property
    def framework(self) -> str:
        """The framework that the loop trains with, by the name of its module."""
        return str(self.start.get("framework") or "tensorflow")

    @cached_property
    def facts(self) -> Event:
        """The loop's own facts; empty if it ended before that."""
        found: Event = {}
        for event in self.loop:
            if event["e"] in ("early", "facts"):
                found |= event
        return found

    @cached_property
    def waits_every(self) -> int:
        """The script waits for its devices after every so many steps; 1 where that is not seen."""
        return max((int(event["every"]) for event in self.of("waits")), default=1)

    def missing(self, what: str, otherwise: str) -> Missing:
        """Why something was not measured, in the words of the process."""
        for event in self.of("missing"):
            if event.get("what") == what:
                return Missing(str(event.get("reason", otherwise)))
        return Missing(otherwise)

    @property
    def steps_per_call(self) -> float:
        """How many steps one turn of the loop holds on average (`steps_per_execution`).

        The last turn of an epoch holds what is left of it.
        """
        asked = int(self.facts.get("steps_per_execution") or 1)
        epoch = self.facts.get("epoch_steps")
        return epoch / math.ceil(epoch / asked) if epoch else float(asked)


def _by_kind(events: Iterable[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event["e"], []).append(event)
    return found


def choose(recording: Recording) -> Observed:
    """Return the loop with most steps of the process with most steps.

    Where several ranks trained, the lowest of them that was timed is taken: what a job
    says of itself, rank 0 says. Raises `NoLoop` with what was seen instead.
    """
    found = [observed for events in recording.events.values() for observed in loops(events)]
    if not found:
        raise _no_loop(recording)
    return max(found, key=_worth)


def main_loop(events: tuple[Event, ...]) -> Observed | None:
    """Return the loop with most steps of one process; None if it had none."""
    return max(loops(events), key=_worth, default=None)


def _worth(loop: Observed) -> tuple[bool, float, int]:
    lowest = -math.inf if loop.place is None else -float(loop.place["rank"])
    complete = any(block["p"] == "real" for block in loop.of("block"))
    return complete, lowest, sum(1 for _ in loop.of("step"))


def loops(events: tuple[Event, ...]) -> Iterator[Observed]:
    """The training loops of one process, each with the events up to the next one."""
    starts = [index for index, event in enumerate(events) if event["e"] == "loop"]
    for start, end in zip(starts, [*starts[1:], len(events)], strict=False):
        yield Observed(events, events[start], events[start + 1 : end])


def _no_loop(recording: Recording) -> NoLoop:
    events = [event for process in recording.events.values() for event in process]
    kinds = {event["e"] for event in events}
    lost = next((event["lost"] for event in events if event.get("lost")), None)
    if lost is None and "hello" not in kinds:
        return NoLoop(
            "no Python process reported back",
            "python -I, -E and -S ignore PYTHONPATH, as does a launcher that resets it; "
            "run without them",
            ("no process loaded the observer",),
        )
    # Other ways of the script to train: JAX where it imports no framework, Keras's backend.
    unsupported = [event for event in events if event["e"] == "unsupported"]
    named = (event for event in unsupported if "import" not in kinds or event["name"] != "JAX")
    others = list(dict.fromkeys(map(_versioned, named)))
    rows = (
        (
            lost is not None,
            f"what was recorded could not be kept ({lost})",
            "free some space, or name another folder for it with --output-dir",
        ),
        (
            "sessions" in kinds,
            "the script trains with TensorFlow 1's sessions, which trainperf does not observe",
            "trainperf observes TensorFlow 2: Keras's `fit`, or steps with a `GradientTape`",
        ),
        (
            bool(others) and "first_update" not in kinds,
            f"the script imported {' and '.join(others)}, which trainperf does not observe",
            "trainperf sees TensorFlow, PyTorch, and Keras on either: KERAS_BACKEND names another",
        ),
        (
            "torch_replay" in kinds,
            "the script replays CUDA graphs, and no update by an optimizer was captured in them",
            "trainperf counts captured updates; run it without its graphs to have its steps timed",
        ),
        (
            "import" not in kinds,
            "the script never imported a framework",
            "trainperf sees TensorFlow, Keras and PyTorch; is this the script that trains?",
        ),
        (
            True,
            "no step that updates weights was repeated",
            "does the script train in this process, for a few steps, with these arguments?",
        ),
    )
    why, hint = next((why, hint) for holds, why, hint in rows if holds)
    return NoLoop(f"no training loop was seen: {why}", hint, tuple(_what_was_seen(events)))


def _what_was_seen(events: list[Event]) -> Iterator[str]:
    for event in events:
        if event["e"] == "import":
            yield f"{_versioned(event)} was imported"
    kinds = Counter(event["e"] for event in events)
    if kinds["sessions"]:
        where = next(site(event.get("where")) for event in events if event["e"] == "sessions")
        yield "sessions were run" + (f", at {spot(where.file, where.line)}" if where else "")
        return
    updated = kinds["first_update"]
    yield "weights were updated, but not in a loop" if updated else "no weights were updated"
    if kinds["evaluate"]:
        yield f"{kinds['evaluate']} evaluations"
    for event in events:
        if event["e"] == "error":
            yield f"it ended with {event['type']}: {event['text'][:200]}"


def _versioned(event: Event) -> str:
    return f"{NAMES.get(event['name'], event['name'])} {event['version']}".rstrip()


NAMES = {"tensorflow": "TensorFlow", "keras": "Keras", "torch": "PyTorch"}
"""The frameworks' names, by their packages."""


def site(value: object) -> Site | None:
    """Read a site from an event."""
    return read_as(Site, value) if isinstance(value, dict) and value.get("line") else None


def read_as(kind: type[T], event: Event, /, **more: object) -> T:
    """Read an event whose fields are those of a value; None is what the value has by itself."""
    asked = {
        field.name
        for field in fields(kind)  # type: ignore[arg-type]
        if field.default is MISSING and field.default_factory is MISSING
    }
    given = {**event, **more}
    known = {name: value for name, value in given.items() if value is not None or name in asked}
    return msgspec.convert(known, kind, strict=False)
