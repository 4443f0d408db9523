"""The time that a script spends beside its training steps."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from trainperf.child.timing.estimating import FEWEST
from trainperf.evidence.events import Observed, site
from trainperf.evidence.facts import loop
from trainperf.evidence.now_and_then import LEAST_SHARE, evaluated, is_between, named, now_and_then
from trainperf.evidence.timing import between_epochs, probe
from trainperf.model import BetweenEpochs, Event, InPlace, Measure, Missing, Outside, Site, Spent
from trainperf.model.outside import CALLED_EAGERLY, NOTHING_SEEN, SpentOn

KINDS: dict[str, SpentOn] = {
    "predict": "prediction",
    "predict_on_batch": "prediction",
    CALLED_EAGERLY: "prediction",
    "evaluate": "evaluation",
    "test_on_batch": "evaluation",
}
"""The kind of work of a call, by the name of the method."""

CALLS_OF_MODELS = ("_wrapped_call_impl", "_call_impl")
"""Functions behind `torch.nn.Module.__call__`: their time is the model's, whoever calls it."""

SAVING = ("save", "save_weights", "save_model", "export", "_legacy_save")
"""Library functions that write a model: what runs them is not the script's own work."""

LEAST_IN_STEP = 0.05
"""The same of a step: its own parts are told apart elsewhere."""

_LONG = 3.0
"""A step that takes so many times as long as others holds more than a step."""
_FEWEST = 2
"""One such step may be the machine's doing."""
_ALIKE = 0.3
"""Pauses by plan take as long, and stay away as long, each time: to this share."""


class _Part(NamedTuple):
    """A part of a turn: its kind of work, its seconds, and the rest as in `Spent`."""

    what: SpentOn
    seconds: float
    name: str = ""
    calls: float | None = None
    where: Site | None = None
    rows: int | None = None
    instead: InPlace | None = None


def outside(observed: Observed, real: Measure | Missing) -> Outside | Missing:
    """The parts of one turn of the script besides its steps, or why they are not known."""
    if isinstance(real, Missing):
        return Missing(real.reason)
    found = _fits(observed, real.seconds)
    if found is not None:
        return found
    return (
        _steps(observed, real.seconds)
        or now_and_then(observed, real.seconds)
        or pauses(observed, real.seconds)
        or _epochs(observed, real.seconds)
        or NOTHING_SEEN
    )


def around(observed: Observed) -> Site | None:
    """Where the loop of the script stands that calls `fit` again and again; None without one."""
    return next((site(event.get("where")) for event in observed.of("repeats")), None)


def _fits(observed: Observed, real: float) -> Outside | Missing | None:
    """A `fit` with what stands before the next one; None where none was to be looked at."""
    cycles = list(observed.of("cycle"))
    if not cycles:
        reasons = [str(one["reason"]) for one in observed.of("repeats")]
        return Missing(reasons[-1] or "what follows `fit` was not reached") if reasons else None
    whole = [one for one in cycles if one["complete"]]
    used = whole[1:] or whole or cycles[:1]  # what is called first traces, once
    facts = loop(observed)
    if not facts.epoch_steps:
        return Missing("it is not known how many steps a `fit` has")
    epochs = facts.epochs or 1
    steps = epochs * facts.epoch_steps
    training = steps * real
    gap = statistics.fmean(one["gap_s"] for one in used)
    calls = _in_place(observed, _called(used, len(used)))
    ends = _ends_of_epochs(observed, used, epochs, training)
    opening = statistics.fmean(one["opening_s"] or 0.0 for one in used)
    firsts = [one["first_s"] for one in used if one.get("first_s") is not None]
    anew = max(0.0, statistics.fmean(firsts) - real) if firsts else 0.0
    seconds = training + ends + opening + gap + anew
    rest = max(0.0, gap - sum(one.seconds for one in calls))
    parts = [
        *calls,
        *_functions(used, rest, calls),
        _Part("epoch end", ends),
        _Part("opening", opening, "fit", None, facts.where),
        _Part("tracing", anew, "fit", None, facts.where),
    ]
    return Outside(
        "fit",
        seconds,
        steps,
        min(training, seconds),
        _spent(parts, seconds),
        whole=bool(whole),
        turns=len(used),
        loop=around(observed),
    )


def _ends_of_epochs(
    observed: Observed, used: Sequence[Event], epochs: int, training: float
) -> float:
    """Seconds of a `fit` after its epochs: validation, callbacks, what `fit` does besides."""
    known = [one for one in used if one["fit_s"] is not None]
    timed: list[float] = [one["fit_s"] - (one["opening_s"] or 0.0) for one in known]
    if timed and len(timed) == len(used):
        return max(0.0, statistics.median(timed) - training)
    gaps = between_epochs(observed) if epochs > 1 else None
    tails = [one["tail_s"] for one in used if one["tail_s"] is not None]
    tail = statistics.fmean(tails) if tails else 0.0
    return tail + (epochs - 1) * (gaps.seconds if gaps is not None else tail)


def _steps(observed: Observed, real: float) -> Outside | None:
    """Calls within the steps of a loop of the script's own: `predict` beside each update.

    Their share of a step is that of the blocks in which steps were timed, with a call or without.
    """
    counted = {one["b"]: one for one in observed.of("calls")}
    made = seconds = 0.0
    for block in observed.of("block"):
        if block["p"] == "real":  # what a block of two lengths tells are fewer steps than it made
            steps = counted.get(block["b"], block)["n"]
            made += steps
            seconds += block["d"] * steps / block["n"]
    if not counted or not seconds:
        return None
    made *= observed.steps_per_call
    found = _called(counted.values(), made)
    calls = [one._replace(seconds=one.seconds * real * made / seconds) for one in found]
    taken = sum(one.seconds for one in calls)
    if taken < LEAST_IN_STEP * real:
        return None
    return Outside("step", real, 1, max(0.0, real - taken), _spent(calls, real))


def _epochs(observed: Observed, real: float) -> Outside | None:
    """An epoch with what follows it, where one was seen to end."""
    gaps = between_epochs(observed)
    if gaps is None or not gaps.epoch_steps or not gaps.sure:
        return None
    training = gaps.epoch_steps * real
    seconds = training + gaps.seconds
    asides = list(observed.of("aside"))
    called = _called(asides, max(1, sum(1 for _ in observed.of("between"))))
    calls = _in_place(observed, called)
    parts: list[_Part] = [
        _validation(observed, gaps),
        _Part("opening", gaps.restart_s or 0.0),
        *calls,
    ]
    rest = max(0.0, gaps.seconds - sum(one.seconds for one in parts))
    kept = min(rest, max(0.0, (gaps.callbacks_s or 0.0) - sum(one.seconds for one in calls)))
    parts.append(_Part("callbacks", kept))
    parts += _functions(asides, rest - kept, calls)
    return Outside("epoch", seconds, gaps.epoch_steps, training, _spent(parts, seconds))


def _validation(observed: Observed, gaps: BetweenEpochs) -> _Part:
    """The evaluation between two epochs: Keras's own, or that of a PyTorch script."""
    if gaps.validation_s is not None:
        return _Part("evaluation", gaps.validation_s)
    seen = [one for one in evaluated(observed) if is_between(observed, one)]
    if not seen:
        return _Part("evaluation", 0.0)
    taken = statistics.median(one["seconds"] for one in seen[1:] or seen)
    name, where = named(seen[-1])
    return _Part("evaluation", min(taken, gaps.seconds), name, None, where)


def _called(events: Iterable[Event], turns: float) -> Iterator[_Part]:
    """The calls that were counted in so many turns, by what was called and its line."""
    counts: Counter[tuple[str, Site | None]] = Counter()
    seconds: Counter[tuple[str, Site | None]] = Counter()
    rows: dict[tuple[str, Site | None], list[int | None]] = {}
    for event in events:
        for call in event["calls"]:
            key = (str(call["what"]), site(call["where"]))
            counts[key] += call["n"]
            seconds[key] += call["seconds"]
            rows.setdefault(key, []).append(call.get("rows"))
    for (name, where), count in counts.items():
        given = [one for one in rows[name, where] if one is not None]
        most = max(given) if len(given) == len(rows[name, where]) else None
        taken = seconds[name, where] / turns
        yield _Part(KINDS[name], taken, name, count / turns, where, most)


def _in_place(observed: Observed, calls: Iterable[_Part]) -> list[_Part]:
    """The calls, with what was timed of what could stand for them."""
    pairs: dict[tuple[str, Site | None], list[Event]] = {}
    for event in observed.of("in_place"):
        if not event["traced"]:
            pairs.setdefault((event["what"], site(event["where"])), []).append(event)
    return [
        one._replace(instead=_instead(pairs[one.name, one.where]))
        if len(pairs.get((one.name, one.where), ())) >= FEWEST
        else one
        for one in calls
    ]


def _instead(pairs: list[Event]) -> InPlace:
    base, candidate = ([one[key] for one in pairs] for key in ("seconds", "instead_s"))
    found = probe(
        {"name": "in place", "base": base, "candidate": candidate, "one_off": 0.0, "detail": {}}
    )
    apart = max(one["apart"] for one in pairs)
    return InPlace(
        found.base_s, found.candidate_s, found.ratio, found.low, found.high, len(pairs), apart
    )


def _functions(events: Iterable[Event], rest: float, calls: Sequence[_Part]) -> list[_Part]:
    """The functions on the stacks in the time that was not spent in calls that were timed.

    The innermost function of the user's counts, by its line; the lines of those calls are
    left out, where anything else was seen.
    """
    timed = {(one.where.file, one.where.line) for one in calls if one.where is not None}
    seen: Counter[tuple[str, str, int, str]] = Counter()
    for event in events:
        for count in event["stacks"]:
            if count["thread"] == "main" and (count["file"], count["line"]) not in timed:
                seen[_function(count)] += count["n"]
    total = sum(seen.values())
    if not total:
        return [_Part("other", rest)]
    parts: list[_Part] = []
    for (file, name, line, into), n in seen.items():
        what: SpentOn = "saving" if into in SAVING else "other"
        where = Site(file, line, name)
        shown = into if what == "saving" or name == "<module>" else name
        shown = "forward" if shown in CALLS_OF_MODELS else shown
        parts.append(_Part(what, rest * n / total, shown, None, where))
    return parts


def _function(count: dict[str, Any]) -> tuple[str, str, int, str]:
    """By what samples are gathered: the function, at the top of a module the line."""
    line = count["line"] if count["function"] == "<module>" else count["def"]
    into = count["into"] if count["into"] in SAVING or count["function"] == "<module>" else ""
    return str(count["file"]), str(count["function"]), int(line), str(into)


def _spent(parts: Iterable[_Part], seconds: float) -> tuple[Spent, ...]:
    """The parts that are worth a line, longest first; the others in one."""
    kept: list[Spent] = []
    left = 0.0
    for one in parts:
        share = min(1.0, one.seconds / seconds)
        if share < LEAST_SHARE:
            left += one.seconds
            continue
        kept.append(
            Spent(
                one.what, one.seconds, share, one.name, one.calls, one.where, one.rows, one.instead
            )
        )
    if left >= LEAST_SHARE * seconds:
        kept.append(Spent("other", left, left / seconds))
    return tuple(sorted(kept, key=lambda one: -one.seconds))


def pauses(observed: Observed, real: float) -> Outside | None:
    """The steps from one pause to the next, of a loop that is seen by its updates only.

    `real` is a step in seconds. Pauses are what makes single steps much longer than the others,
    by about as much and after about as many steps each time: an evaluation at every so many
    steps, the end of an epoch. None where there are none, or they come without a plan.
    """
    if observed.start["kind"] not in ("update", "call"):
        return None
    took = [one["t"] - one["s"] for one in observed.of("step") if one["p"] != "profile"]
    if not took:
        return None
    usual = statistics.median(took)
    long = [number for number, seconds in enumerate(took) if seconds > _LONG * usual]
    more = [took[number] - usual for number in long]
    apart = [second - first for first, second in pairwise(long)]
    if len(long) < _FEWEST or not (_alike(more) and _alike(apart)):
        return None
    every = round(statistics.median(apart) * observed.steps_per_call)
    pause, training = statistics.median(more), every * real
    seconds = training + pause
    spent = (Spent("other", pause, pause / seconds),)
    return Outside("pause", seconds, every, training, spent, turns=len(long) - 1)


def _alike(values: Sequence[float]) -> bool:
    middle = statistics.median(values)
    return all(abs(one - middle) <= _ALIKE * middle for one in values)
