"""The times: of a step, of start-up, between epochs, and of the probes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from trainperf.evidence.events import Observed
from trainperf.model import (
    BetweenEpochs,
    Event,
    Measure,
    Missing,
    Probe,
    StartUp,
    Times,
)

T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20)
"""Student's t, two-sided 95 %, for 1 to 11 degrees of freedom; beyond, the last."""

MIN_STEPS = 3
MIN_REAL_STEPS = 2
PARTS = 4
STALLS_FROM = 6


def student(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of the mean of a few values; None below two."""
    if len(values) < 2:
        return None
    t = T95[min(len(values) - 1, len(T95)) - 1]
    return t * statistics.stdev(values) / math.sqrt(len(values))


def times(observed: Observed) -> Times:
    """The three times of one step, each a measure or the reason why there is none."""
    return Times(
        real_=_measure(observed, "real"),
        resident_=_measure(observed, "resident"),
        input_=_input(observed),
        host_=_host(observed),
    )


def _measure(observed: Observed, phase: str) -> Measure | Missing:
    per_call = observed.steps_per_call
    blocks = [
        (event["d"], event["n"] * per_call)
        for event in observed.of("block")
        if event["p"] == phase and event["n"] > 0 and event["d"] > 0
    ]
    if not blocks:
        return _partial(observed, phase)
    parts = _parts(observed, phase)
    kept = without_stalls(parts)
    if parts and len(kept) < len(parts):
        seconds = sum(d for d, _ in kept) / sum(n for _, n in kept)
    else:
        seconds = sum(d for d, _ in blocks) / sum(n for _, n in blocks)
    means = tuple(d / n for d, n in kept) or tuple(d / n for d, n in blocks)
    half = student(means)
    return Measure(
        seconds,
        round(sum(n for _, n in blocks)),
        means,
        None if half is None else max(0.0, seconds - half),
        None if half is None else seconds + half,
        tuple(d / n for d, n in blocks),
        stalls=len(parts) - len(kept),
    )


def _parts(observed: Observed, phase: str) -> list[tuple[float, float]]:
    """Seconds and steps of runs of steps, four to a round: the spread within rounds counts."""
    rounds: dict[int, list[float]] = {}
    for event in observed.of("step"):
        if event["p"] == phase:
            rounds.setdefault(event["b"], []).append(event["t"] - event["s"])
    parts: list[tuple[float, float]] = []
    for durations in rounds.values():
        size = max(2, -(-len(durations) // PARTS))
        runs = [durations[start : start + size] for start in range(0, len(durations), size)]
        parts += [(sum(run), len(run) * observed.steps_per_call) for run in runs if len(run) > 1]
    return parts


def without_stalls(parts: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out runs of steps that something outside the loop held up.

    A virtual machine that is paused, or a neighbour's burst, shows as one run of
    steps far above all others. At most a sixth of the runs may go, each at least
    twice the median; what happens more often than that belongs to the loop. The
    report says how many were left out.
    """
    if len(parts) < STALLS_FROM:
        return parts
    middle = statistics.median(d / n for d, n in parts)
    kept = [(d, n) for d, n in parts if d / n < 2 * middle]
    return kept if len(parts) - len(kept) <= len(parts) // 6 else parts


def _partial(observed: Observed, phase: str) -> Measure | Missing:
    """A measure from single steps, for a run that ended before a block was full."""
    phases = ("real", "real~", "warmup") if phase == "real" else (phase,)
    steps = [event for event in observed.of("step") if event["p"] in phases]
    durations = [event["t"] - event["s"] for event in steps]
    if phase == "real":
        durations = durations[1:]  # the first step traces and compiles
    if len(durations) < (MIN_STEPS if phase != "real" else MIN_REAL_STEPS):
        reason = f"the run ended before the {phase} phase was complete"
        if phase not in observed.start["phases"]:
            reason = "the loop makes its own batches, and none could be replayed"
        return observed.missing(phase, reason)
    return Measure(
        statistics.fmean(durations) / observed.steps_per_call,
        round(len(durations) * observed.steps_per_call),
        (),
    )


def _input(observed: Observed) -> Measure | Missing:
    if "input" not in observed.start["phases"]:
        return Missing("the loop makes its own batches, so they cannot be drained apart from it")
    per_step = int(observed.facts.get("batches_per_step") or 1)
    slopes = [_slope(event["marks"]) for event in observed.of("input")]
    means = tuple(slope[0] * per_step for slope in slopes if slope is not None)
    if not means:
        return observed.missing("input", "the run ended before the input phase was complete")
    seconds = statistics.median(means)
    half = student(means)
    batches = sum(slope[1] for slope in slopes if slope is not None)
    return Measure(
        seconds,
        max(1, batches // per_step),
        means,
        None if half is None else max(0.0, seconds - half),
        None if half is None else seconds + half,
    )


def _slope(marks: list[tuple[float, int]]) -> tuple[float, int] | None:
    """Seconds per batch over the later half of a drain.

    The first batches come from buffers that were full when the drain began, and say
    nothing about what the pipeline can deliver.
    """
    end, total = marks[-1]
    for t, count in marks:
        if t >= end / 2 and count < total:
            return (end - t) / (total - count), total - count
    if len(marks) > 1:
        t, count = marks[0]
        if total > count:
            return (end - t) / (total - count), total - count
    return None


def _host(observed: Observed) -> float | Missing:
    if observed.framework == "torch" or observed.start["kind"] not in ("fit", "argument"):
        return Missing("host work cannot be told from the step in a loop of this kind")
    resident = [event for event in observed.of("step") if event["p"] == "resident"]
    if not resident:
        return Missing("no step ran on a resident batch")
    host = [event["t"] - event["s"] - event["w"] for event in resident]
    return max(0.0, statistics.fmean(host)) / observed.steps_per_call


def startup(observed: Observed) -> StartUp | None:
    """What passed before the first step, taken apart.

    Without tracing, what the first step took cannot be told from the set-up.
    """
    hello, update = observed.first("hello"), observed.first("first_update")
    if hello is None or update is None:
        return None
    total = update["t"] - hello["t"]
    imports = sum(event["seconds"] for event in _before(observed, "import", update))
    before = [event for event in _before(observed, "trace", update) if event["in_step"]]
    tracing = sum(event["d"] for event in before)
    evaluated = sum(event["seconds"] for event in _before(observed, "evaluation", update))
    evaluated += sum(event["seconds"] for event in _before(observed, "evaluate", update))
    first = update["t"] - min((event["s"] for event in before), default=update["t"])
    return StartUp(
        to_first_step_s=total,
        imports_s=imports,
        setup_s=max(0.0, total - imports - max(first, tracing)),
        tracing_s=tracing if before else None,
        first_step_s=first if before else None,
        warm_up_steps=sum(1 for event in observed.of("step") if event["p"] == "warmup"),
        evaluation_s=evaluated or None,
    )


def _before(observed: Observed, kind: str, update: Event) -> Iterator[Event]:
    for event in observed.process:
        if event["e"] == kind and event["t"] <= update["t"]:
            yield event


def between_epochs(observed: Observed) -> BetweenEpochs | None:
    """What passes between two epochs: in all where one ended, else the restart alone."""
    gaps = list(observed.of("between"))
    firsts = list(_opening(observed))
    real = _measure(observed, "real")
    usual = real.seconds * observed.steps_per_call if isinstance(real, Measure) else 0.0
    excess = [max(0.0, event["t"] - event["s"] - usual) for event in firsts]
    restart = statistics.median(excess) if excess else None
    epoch_steps = observed.facts.get("epoch_steps")
    if not gaps:
        if restart is None:
            return None
        return BetweenEpochs(restart, len(firsts), epoch_steps, restart_s=restart)
    usual_gaps = gaps[1:] or gaps  # the first one traces the validation, once
    seconds = statistics.median(event["seconds"] for event in usual_gaps)
    validation = list(_within(observed.of("evaluate"), usual_gaps))
    return BetweenEpochs(
        seconds=seconds + (restart or 0.0),
        epochs_seen=len(gaps),
        epoch_steps=epoch_steps,
        validation_s=statistics.median(validation) if validation else None,
        callbacks_s=_epoch_callbacks(observed),
        restart_s=restart,
    )


def _opening(observed: Observed) -> Iterator[Event]:
    """The first steps that opened their input: those after a drain go on with what it opened."""
    drained = False
    for event in observed.loop:
        if event["e"] in ("input", "epoch"):
            drained = event["e"] == "input"
        elif event["e"] == "step" and event["p"] == "first" and not drained:
            yield event


def _within(events: Iterator[Event], gaps: list[Event]) -> Iterator[float]:
    for event in events:
        if any(gap["s"] <= event["s"] <= gap["s"] + gap["seconds"] for gap in gaps):
            yield event["seconds"]


def _epoch_callbacks(observed: Observed) -> float | None:
    seconds = []
    for event in observed.of("callback"):
        for name in ("on_epoch_begin", "on_epoch_end"):
            count, total, _ = event["hooks"].get(name, (0, 0.0, 0.0))
            if count:
                seconds.append(total / count)
    return sum(seconds) if seconds else None


def probes(observed: Observed) -> dict[str, Probe | Missing]:
    """The probes by name, each with its ratio and interval, or why it was not run."""
    found: dict[str, Probe | Missing] = {}
    for event in observed.of("missing"):
        what = str(event["what"])
        if what.startswith("probe "):
            found[what.removeprefix("probe ")] = Missing(str(event["reason"]))
    for event in observed.of("probe"):
        found[event["name"]] = _probe(event)
    return found


def _probe(event: Event) -> Probe:
    """The geometric mean of the paired ratios, with a t interval on their logarithms."""
    pairs = list(zip(event["base"], event["candidate"], strict=False))
    logs = [math.log(base / candidate) for base, candidate in pairs]
    middle = statistics.fmean(logs)
    half = student(logs) or math.log(2)
    return Probe(
        name=event["name"],
        base_s=statistics.geometric_mean(base for base, _ in pairs),
        candidate_s=statistics.geometric_mean(candidate for _, candidate in pairs),
        ratio=math.exp(middle),
        low=math.exp(middle - half),
        high=math.exp(middle + half),
        one_off_s=event["one_off"],
        detail=event["detail"],
    )
