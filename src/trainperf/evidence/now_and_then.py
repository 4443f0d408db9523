"""Evaluations, checkpoints, samples: the work of a PyTorch loop now and then between its steps."""

from __future__ import annotations

import statistics
from bisect import bisect
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from trainperf.evidence.events import Observed, host_times, site
from trainperf.evidence.facts import loop
from trainperf.model import Event, Outside, Site, Spent
from trainperf.model.outside import SpentOn, Turn

LEAST_SHARE = 0.01
"""The share of a turn below which work gets no line."""


def now_and_then(observed: Observed, real: float) -> Outside | None:
    """The steps from one evaluation, or else one checkpoint, to the next, in a loop that does so.

    How many they are is counted where two were seen, else read off the source.
    """
    steps = list(observed.of("step"))
    works: list[tuple[SpentOn, list[Event]]] = [("evaluation", evaluated(observed))]
    works += [("saving", events) for events in _saved(observed)]
    found: list[_Regular] = []
    for what, events in works:
        seen = [one for one in events if not is_between(observed, one)]
        within = [one for one in seen if steps and one["s"] > steps[0]["s"]]
        apart = _apart(observed, within, seen) if steps and seen else 0
        if apart >= 1:
            found.append(_Regular(what, within or seen, apart))
    if not found:
        return None
    every = found[0].apart
    inside = [event for one in found for event in one.events if event["s"] > steps[0]["s"]]
    plain = _plain(observed, inside, real)
    beside, training = _beside(observed, inside, plain), every * plain
    seconds = training + beside + sum(one.seconds_in(every) for one in found)
    spent = [one.spent(every, seconds) for one in found]
    spent.append(Spent("other", beside, beside / seconds))
    kept = sorted((one for one in spent if one.share >= LEAST_SHARE), key=lambda one: -one.seconds)
    turn: Turn = "evaluation" if found[0].what == "evaluation" else "pause"
    return Outside(turn, seconds, every, training, tuple(kept), turns=len(found[0].used))


class _Regular(NamedTuple):
    """Work that comes after every so many steps, and the times it was seen."""

    what: SpentOn
    events: list[Event]
    apart: int

    @property
    def used(self) -> list[Event]:
        """Those that count: the first may do what is done once."""
        return self.events[1:] or self.events

    def seconds_in(self, steps: int) -> float:
        """Seconds of it in so many steps."""
        taken: float = statistics.median(one["seconds"] for one in self.used)
        return taken * steps / self.apart

    def spent(self, steps: int, seconds: float) -> Spent:
        """Its part of a turn of so many steps, which takes so many seconds."""
        name, where = named(self.used[-1])
        taken = self.seconds_in(steps)
        return Spent(self.what, taken, taken / seconds, name, where=where)


def _beside(observed: Observed, inside: list[Event], plain: float) -> float:
    """Seconds of what else is done in a step that evaluates: samples are drawn, files written."""
    rest = []
    for step in observed.of("step"):
        held = [one["seconds"] for one in inside if step["s"] <= one["s"] < step["t"]]
        if step["p"] == "evaluated" and held:
            rest.append(step["t"] - step["s"] - plain * observed.steps_per_call - sum(held))
    return max(0.0, statistics.median(rest)) if rest else 0.0


def _apart(observed: Observed, within: list[Event], seen: list[Event]) -> int:
    """How many steps lie between two evaluations; 0 if that is not known.

    Of one before the first step of an epoch it is not known whether steps are meant, unless it
    stands in the loop of the steps itself.
    """
    starts = [one["s"] for one in within]
    counts = [
        sum(1 for step in observed.of("step") if first <= step["t"] < second)
        for first, second in pairwise(starts)
    ]
    if counts:
        return round(statistics.median(counts) * observed.steps_per_call)
    by_updates = observed.start["kind"] in ("update", "call")
    if within or by_updates or _stands_in_the_loop(observed, seen[-1]):
        return int(seen[-1]["every"] or 0)
    return 0


def _stands_in_the_loop(observed: Observed, event: Event) -> bool:
    """Whether the loop around an evaluation is that which takes the batches of the training."""
    around, where = site(event.get("loop")), loop(observed).where
    if around is None or where is None:
        return False
    return (around.file, around.line) == (where.file, where.line)


def evaluated(observed: Observed) -> list[Event]:
    """The times in which a PyTorch model was one that evaluates, in the whole process."""
    return list(observed.all("evaluation"))


def _saved(observed: Observed) -> Iterable[list[Event]]:
    """The checkpoints that were written by themselves, not within an evaluation, line by line.

    The files that one line writes in one step are one checkpoint.
    """
    spans = [(one["s"], one["s"] + one["seconds"]) for one in evaluated(observed)]
    ends = [step["t"] for step in observed.of("step")]
    lines: dict[Site | None, dict[int, Event]] = {}
    for event in observed.all("saving"):
        if any(low <= event["s"] < high for low, high in spans):
            continue
        checkpoints = lines.setdefault(site(event["where"]), {})
        step = bisect(ends, event["s"])
        before = checkpoints.get(step)
        seconds = event["seconds"] + (before["seconds"] if before else 0.0)
        checkpoints[step] = {**(before or event), "seconds": seconds}
    return [list(checkpoints.values()) for checkpoints in lines.values()]


def is_between(observed: Observed, one: Event) -> bool:
    """Whether an evaluation stands between two epochs."""
    return any(first <= one["s"] <= last for first, last in map(host_times, observed.of("between")))


def named(event: Event) -> tuple[str, Site | None]:
    """The user's function that an event is of, "" for none, and its place."""
    where = site(event["where"])
    return "" if where is None or where.function == "<module>" else where.function, where


def _plain(observed: Observed, within: list[Event], real: float) -> float:
    """Seconds of a step without such work; what each step has is in `real`, and comes off it."""
    steps = [one for one in observed.of("step") if one["p"] == "real"]
    held = [
        sum(one["seconds"] for one in within if step["s"] <= one["s"] < step["t"]) for step in steps
    ]
    if not any(held):
        return real
    plain = [step["t"] - step["s"] for step, more in zip(steps, held, strict=True) if not more]
    if plain:
        return float(statistics.median(plain) / observed.steps_per_call)
    return max(0.0, real - float(statistics.mean(held) / observed.steps_per_call))
