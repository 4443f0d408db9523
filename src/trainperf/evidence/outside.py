"""The time that a script spends beside its training steps."""

from __future__ import annotations

import statistics
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from trainperf.child.timing.estimating import FEWEST
from trainperf.evidence.events import Observed, host_times, site
from trainperf.evidence.facts import loop
from trainperf.evidence.timing import between_epochs, probe
from trainperf.model import BetweenEpochs, Event, InPlace, Measure, Missing, Outside, Site, Spent
from trainperf.model.training import CALLED_EAGERLY, NOTHING_SEEN, SpentOn, Turn

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

LEAST_SHARE = 0.01
"""The share of a turn below which work gets no line."""

LEAST_IN_STEP = 0.05
"""The same of a step: its own parts are told apart elsewhere."""

COMPILING = ("torch_compilation", "trace")
"""Events of what makes a step long once, which is told as such."""

_LONG = 3.0
"""A step that takes so many times as long as others holds more than a step."""
_FEWEST = 2
"""One such step may be the machine's doing."""
_ALIKE = 0.3
"""Pauses by plan take as long, and stay away as long, each time: to this share."""


def outside(observed: Observed, real: Measure | Missing) -> Outside | Missing:
    """The parts of one turn of the script besides its steps, or why they are not known."""
    if isinstance(real, Missing):
        return Missing(real.reason)
    for turn_of in (_fits, _steps, _now_and_then, pauses, _epochs):
        if (found := turn_of(observed, real.seconds)) is not None:
            return found
    return NOTHING_SEEN


def around(observed: Observed) -> Site | None:
    """Where the loop of the script stands that calls `fit` again and again; None without one."""
    return next((site(event.get("where")) for event in observed.of("repeats")), None)


def _fits(observed: Observed, real: float) -> Outside | Missing | None:
    """A `fit` with what stands before the next one; None where none was to be looked at."""
    cycles = list(observed.of("cycle"))
    if not cycles:
        reasons = [str(event["reason"]) for event in observed.of("repeats")]
        return Missing(reasons[-1] or "what follows `fit` was not reached") if reasons else None
    whole = [cycle for cycle in cycles if cycle["complete"]]
    used = whole[1:] or whole or cycles[:1]  # what is called first traces, once
    facts = loop(observed)
    if not facts.epoch_steps:
        return Missing("it is not known how many steps a `fit` has")
    epochs = facts.epochs or 1
    training = epochs * facts.epoch_steps * real
    gap = statistics.fmean(cycle["gap_s"] for cycle in used)
    calls = _in_place(observed, _called(used, len(used)))
    ends = _ends_of_epochs(observed, used, epochs, training)
    opening = statistics.fmean(cycle["opening_s"] or 0.0 for cycle in used)
    firsts = [cycle["first_s"] for cycle in used if cycle.get("first_s") is not None]
    anew = max(0.0, statistics.fmean(firsts) - real) if firsts else 0.0
    parts = [
        *calls,
        *_functions(used, gap - sum(call.seconds for call in calls), calls),
        Spent("epoch end", ends, 0.0),
        Spent("opening", opening, 0.0, "fit", where=facts.where),
        Spent("tracing", anew, 0.0, "fit", where=facts.where),
    ]
    between = ends + opening + gap + anew
    return _turn("fit", epochs * facts.epoch_steps, training, between, parts, bool(whole))


def _ends_of_epochs(
    observed: Observed, used: Sequence[Event], epochs: int, training: float
) -> float:
    """Seconds of a `fit` after its epochs: validation, callbacks, what `fit` does besides."""
    timed: list[float] = [
        cycle["fit_s"] - (cycle["opening_s"] or 0.0) for cycle in used if cycle["fit_s"] is not None
    ]
    if len(timed) == len(used):
        return max(0.0, statistics.median(timed) - training)
    gaps = between_epochs(observed) if epochs > 1 else None
    tails = [cycle["tail_s"] for cycle in used if cycle["tail_s"] is not None]
    tail = statistics.fmean(tails) if tails else 0.0
    return tail + (epochs - 1) * (gaps.seconds if gaps is not None else tail)


def _steps(observed: Observed, real: float) -> Outside | None:
    """Calls within the steps of a loop of the script's own: `predict` beside each update.

    Their share of a step is that of the blocks in which steps were timed, with a call or without.
    """
    counted = {event["b"]: event for event in observed.of("calls")}
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
    calls = [replace(call, seconds=call.seconds * real * made / seconds) for call in found]
    taken = sum(call.seconds for call in calls)
    if taken < LEAST_IN_STEP * real:
        return None
    training = max(0.0, real - taken)
    return _turn("step", 1, training, real - training, calls)


def _epochs(observed: Observed, real: float) -> Outside | None:
    """An epoch with what follows it, where one was seen to end."""
    gaps = between_epochs(observed)
    if gaps is None or not gaps.epoch_steps or not gaps.sure:
        return None
    asides = list(observed.of("aside"))
    calls = _in_place(observed, _called(asides, max(1, sum(1 for _ in observed.of("between")))))
    called = sum(call.seconds for call in calls)
    evaluation, opening = _validation(observed, gaps), gaps.restart_s or 0.0
    rest = max(0.0, gaps.seconds - evaluation.seconds - opening - called)
    kept = min(rest, max(0.0, (gaps.callbacks_s or 0.0) - called))
    parts = [
        evaluation,
        Spent("opening", opening, 0.0),
        *calls,
        Spent("callbacks", kept, 0.0),
        *_functions(asides, rest - kept, calls),
    ]
    return _turn("epoch", gaps.epoch_steps, gaps.epoch_steps * real, gaps.seconds, parts)


def _validation(observed: Observed, gaps: BetweenEpochs) -> Spent:
    """The evaluation between two epochs: Keras's own, or that of a PyTorch script."""
    if gaps.validation_s is not None:
        return Spent("evaluation", gaps.validation_s, 0.0)
    seen = [event for event in observed.all("evaluation") if _is_between(observed, event)]
    if not seen:
        return Spent("evaluation", 0.0, 0.0)
    taken = statistics.median(event["seconds"] for event in seen[1:] or seen)
    name, where = _named(seen[-1])
    return Spent("evaluation", min(taken, gaps.seconds), 0.0, name, where=where)


def _called(events: Iterable[Event], turns: float) -> Iterator[Spent]:
    """The calls that were counted in so many turns, by what was called and its line."""
    groups: defaultdict[tuple[str, Site | None], list[Event]] = defaultdict(list)
    for call in (call for event in events for call in event["calls"]):
        groups[call["what"], site(call["where"])].append(call)
    for (name, where), calls in groups.items():
        taken = sum(call["seconds"] for call in calls) / turns
        times = sum(call["n"] for call in calls) / turns
        rows = [int(call["rows"]) for call in calls if call.get("rows") is not None]
        most = max(rows) if len(rows) == len(calls) else None
        yield Spent(KINDS[name], taken, 0.0, name, times, where, most)


def _in_place(observed: Observed, calls: Iterable[Spent]) -> list[Spent]:
    """The calls, with what was timed of what could stand for them."""
    timed: defaultdict[tuple[str, Site | None], list[Event]] = defaultdict(list)
    for event in observed.of("in_place"):
        if not event["traced"]:
            timed[event["what"], site(event["where"])].append(event)
    told = []
    for call in calls:
        pairs = timed[call.name, call.where]
        if len(pairs) >= FEWEST:
            sides = {"base": "seconds", "candidate": "instead_s"}
            event = {side: [pair[key] for pair in pairs] for side, key in sides.items()}
            found = probe({"name": "", "one_off": 0.0, "detail": {}, **event})
            apart = max(pair["apart"] for pair in pairs)
            seconds = (found.candidate_s, found.ratio, found.low, found.high)
            call = replace(call, instead=InPlace(*seconds, len(pairs), apart))
        told.append(call)
    return told


def _functions(events: Iterable[Event], rest: float, calls: Sequence[Spent]) -> list[Spent]:
    """The functions on the stacks in the time that was not spent in calls that were timed.

    The innermost function of the user's counts, by its line (at the top of a module by that of
    the sample); the lines of those calls are left out, where anything else was seen.
    """
    timed = {(call.where.file, call.where.line) for call in calls if call.where is not None}
    seen: Counter[tuple[str, str, int, str]] = Counter()
    for count in (count for event in events for count in event["stacks"]):
        if count["thread"] == "main" and (count["file"], count["line"]) not in timed:
            of_module = count["function"] == "<module>"
            into = count["into"] if count["into"] in SAVING or of_module else ""
            line = int(count["line"] if of_module else count["def"])
            seen[count["file"], count["function"], line, into] += count["n"]
    if not seen:
        return [Spent("other", max(0.0, rest), 0.0)]
    parts: list[Spent] = []
    for (file, name, line, into), n in seen.items():
        what: SpentOn = "saving" if into in SAVING else "other"
        shown = into if what == "saving" or name == "<module>" else name
        shown = "forward" if shown in CALLS_OF_MODELS else shown
        where = Site(file, line, name)
        parts.append(Spent(what, max(0.0, rest) * n / seen.total(), 0.0, shown, where=where))
    return parts


def _turn(
    turn: Turn,
    steps: int,
    training: float,
    between: float,
    parts: Iterable[Spent],
    whole: bool = True,
) -> Outside:
    """One turn, with the parts that are worth a line, longest first; the others in one."""
    seconds = training + between
    shared = [replace(part, share=min(1.0, part.seconds / seconds)) for part in parts]
    spent = [part for part in shared if part.share >= LEAST_SHARE]
    left = sum(part.seconds for part in shared if part.share < LEAST_SHARE)
    if left >= LEAST_SHARE * seconds:
        spent.append(Spent("other", left, left / seconds))
    spent.sort(key=lambda part: -part.seconds)
    return Outside(turn, seconds, steps, training, tuple(spent), whole)


def pauses(observed: Observed, real: float) -> Outside | None:
    """The steps from one pause to the next, of a loop that is seen by its updates only.

    `real` is a step in seconds. Pauses are what makes single steps much longer than the others,
    by about as much and after about as many steps each time, from the first to the last: an
    evaluation at every so many steps, the end of an epoch. None where there are none, or they come
    without a plan: a neighbour makes a row of steps long, and goes.
    """
    if observed.start["kind"] not in ("update", "call"):
        return None
    compiled = [event["s"] for kind in COMPILING for event in observed.of(kind)]
    took = [
        step["t"] - step["s"]
        for step in observed.of("step")
        if step["p"] != "profile" and not any(step["s"] <= at < step["t"] for at in compiled)
    ]
    if not took:
        return None
    usual = statistics.median(took)
    long = [number for number, seconds in enumerate(took) if seconds > _LONG * usual]
    more = [took[number] - usual for number in long]
    apart = [second - first for first, second in pairwise(long)]
    if len(long) < _FEWEST or not (_alike(more) and _alike(apart)):
        return None
    usually = statistics.median(apart)
    if usually < 2 or max(long[0], len(took) - 1 - long[-1]) > (1 + _ALIKE) * usually:
        return None
    every, pause = round(usually * observed.steps_per_call), statistics.median(more)
    return _turn("pause", every, every * real, pause, [Spent("other", pause, 0.0)])


def _alike(values: Sequence[float]) -> bool:
    middle = statistics.median(values)
    return all(abs(value - middle) <= _ALIKE * middle for value in values)


# ---------------------------------------------------- every so many steps of a PyTorch loop


def _now_and_then(observed: Observed, real: float) -> Outside | None:
    """The steps from one evaluation, or else one checkpoint, to the next, in a loop that does so.

    How many they are is counted where two were seen, else read off the source.
    """
    steps = list(observed.of("step"))
    if not steps:
        return None
    works: list[tuple[SpentOn, list[Event]]] = [("evaluation", [*observed.all("evaluation")])]
    works += [("saving", events) for events in _saved(observed)]
    found: list[tuple[SpentOn, list[Event], int]] = []
    for what, events in works:
        seen = [event for event in events if not _is_between(observed, event)]
        within = [event for event in seen if event["s"] > steps[0]["s"]]
        apart = _apart(observed, within, seen) if seen else 0
        if apart >= 1:
            found.append((what, within or seen, apart))
    if not found:
        return None
    inside = [event for _, events, _ in found for event in events if event["s"] > steps[0]["s"]]
    held = [
        sum(event["seconds"] for event in inside if step["s"] <= event["s"] < step["t"])
        for step in steps
    ]
    first, _, every = found[0]
    parts = []
    for what, events, apart in found:
        used = events[1:] or events  # the first may do what is done once
        name, where = _named(used[-1])
        taken = statistics.median(event["seconds"] for event in used) * every / apart
        parts.append(Spent(what, taken, 0.0, name, where=where))
    timed = [(step, more) for step, more in zip(steps, held, strict=True) if step["p"] == "real"]
    alone = [step["t"] - step["s"] for step, more in timed if not more]
    plain = real
    if timed and not alone:  # what each step has is in `real`, and comes off it
        plain = max(0.0, real - sum(part.seconds for part in parts) / every)
    elif len(alone) < len(timed):
        plain = statistics.median(alone) / observed.steps_per_call
    rest = [  # what else is done in a step that evaluates: samples are drawn, files written
        step["t"] - step["s"] - plain * observed.steps_per_call - took
        for step, took in zip(steps, held, strict=True)
        if step["p"] == "evaluated" and took
    ]
    parts.append(Spent("other", max(0.0, statistics.median(rest)) if rest else 0.0, 0.0))
    turn: Turn = "evaluation" if first == "evaluation" else "pause"
    return _turn(turn, every, every * plain, sum(part.seconds for part in parts), parts)


def _apart(observed: Observed, within: list[Event], seen: list[Event]) -> int:
    """How many steps lie between two evaluations; 0 if that is not known.

    Of one before the first step of an epoch it is not known whether steps are meant, unless it
    stands in the loop of the steps itself.
    """
    starts = [event["s"] for event in within]
    counts = [
        sum(1 for step in observed.of("step") if first <= step["t"] < second)
        for first, second in pairwise(starts)
    ]
    if counts:
        return round(statistics.median(counts) * observed.steps_per_call)
    around, where = site(seen[-1].get("loop")), loop(observed).where
    own = around and where and (around.file, around.line) == (where.file, where.line)
    if within or own or observed.start["kind"] in ("update", "call"):
        return int(seen[-1]["every"] or 0)
    return 0


def _saved(observed: Observed) -> Iterable[list[Event]]:
    """The checkpoints that were written by themselves, not within an evaluation, line by line.

    The files that one line writes in one step are one checkpoint.
    """
    spans = [(event["s"], event["s"] + event["seconds"]) for event in observed.all("evaluation")]
    ends = [step["t"] for step in observed.of("step")]
    lines: defaultdict[Site | None, dict[int, Event]] = defaultdict(dict)
    for event in observed.all("saving"):
        if any(low <= event["s"] < high for low, high in spans):
            continue
        checkpoints, step = lines[site(event["where"])], bisect(ends, event["s"])
        before = checkpoints.get(step, {**event, "seconds": 0.0})
        checkpoints[step] = {**before, "seconds": before["seconds"] + event["seconds"]}
    return [list(checkpoints.values()) for checkpoints in lines.values()]


def _is_between(observed: Observed, one: Event) -> bool:
    """Whether an evaluation stands between two epochs."""
    return any(first <= one["s"] <= last for first, last in map(host_times, observed.of("between")))


def _named(event: Event) -> tuple[str, Site | None]:
    """The user's function that an event is of, "" for none, and its place."""
    where = site(event["where"])
    return "" if where is None or where.function == "<module>" else where.function, where
