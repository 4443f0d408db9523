"""The ledger of the whole training: what comes once, in each step, in each epoch, between fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trainperf.model import (
    BetweenEpochs,
    Evidence,
    Finding,
    Item,
    Length,
    Measure,
    Missing,
    Outside,
    Spent,
    Stack,
    StartUp,
    Training,
)
from trainperf.model.training import SPENT_ON, ItemPart

STEPS = "training steps"
ONCE = "one-off cost"
FIRST = "first step, with tracing"
STARTED_AGAIN = "start, its files in memory"
START = "start, to the first step"
REST = "else between epochs"
COMPILED_AGAIN = "compiling again"
BETWEEN_STEPS = ("evaluation", "pause")
"""Turns that are so many steps, with what comes after them."""
LEAST_S = 0.005
"""Items of fewer seconds in all have no line."""


def ledger(evidence: Evidence) -> Training:
    """Return the training as it is configured, from what was measured; nothing is changed."""
    length, real = evidence.length_, evidence.times.real_
    if isinstance(length, Missing):
        return Training(None, reason=length.reason)
    if not isinstance(real, Measure):
        return Training(length, reason=real.reason)
    if evidence.startup is None:
        return Training(length, reason="the start of the script was not timed")
    steps = max(0, length.steps - 1)  # the first one is a part of the start
    step_s, turn = real.seconds, evidence.outside_
    if isinstance(turn, Outside) and turn.turn in BETWEEN_STEPS:  # what has a line of its own
        step_s = turn.training_s / turn.steps
    torch, again = evidence.torch_, list[Item]()
    if torch is not None and (seen := torch.compiling.recompiling) is not None:
        again.append(Item("compiling", COMPILED_AGAIN, 1, seen.once_s, where=seen.where))
    items = (
        *_start(evidence.startup),
        *again,
        Item("steps", STEPS, steps, steps * step_s, where=evidence.loop.where),
        *_beside(evidence, length),
    )
    items = tuple(item for item in items if item.part == "steps" or item.now_s >= LEAST_S)
    return Training(length, seconds_now=sum(item.now_s for item in items), items=items)


def with_changes(before: Training, stack: Stack | None, lasting: bool) -> Training:
    """Return the training with the kept changes of `stack` in its ledger.

    Steps, and what the slices hold of the time between epochs, shrink by the measured speed-up;
    what the changes cost once is added; all else stays as it is. Where a gain may not last
    (`lasting` is False) nobody can say what becomes of the whole.
    """
    if stack is None or not stack.fixes or before.seconds_now is None:
        return before
    if not lasting:
        return replace(before, reason="the gain lasts as long as what it mends goes on")
    if stack.once_seconds is None:
        return replace(before, reason="what the changes cost once was not measured")
    epochs = before.configured.epochs if before.configured is not None else None
    between = _seconds(before.items, "between")
    held = min(between, stack.held_s * max(0, (epochs or 1) - 1))  # what the slices held of it
    shares = {"steps": 1.0, "between": held / (between or 1.0)}
    gone = 1 - 1 / stack.speedup
    items = [
        replace(item, after_s=item.now_s * (1 - shares.get(item.part, 0.0) * gone))
        for item in before.items
    ]
    if stack.once_seconds > 0:
        items.append(Item("once", ONCE, 1, 0.0, stack.once_seconds))
    after = sum(item.after_s or 0.0 for item in items)
    shrinks = _seconds(before.items, "steps") + held
    rest = after - shrinks / stack.speedup
    return replace(
        before,
        items=tuple(items),
        seconds_after=after,
        low=rest + shrinks / stack.high,
        high=rest + shrinks / stack.low,
    )


def with_calls(training: Training, kept: Sequence[Finding]) -> Training:
    """Return the training where what was timed in place stands for the calls of `kept` findings.

    Where something else makes it unknown how long it takes, it stays so.
    """
    ratios = {
        site: ratio
        for finding in kept
        if finding.in_place is not None
        for site, ratio in zip(finding.where, finding.in_place.ratios, strict=True)
        if ratio is not None
    }
    if not ratios or training.seconds_now is None or training.reason:
        return training
    items, saved = list[Item](), [0.0, 0.0, 0.0]
    for item in training.items:
        left = item.now_s if item.after_s is None else item.after_s
        if item.part == "between" and item.where in ratios:
            each = [left * (1 - 1 / ratio) for ratio in ratios[item.where]]
            saved = [sum(both) for both in zip(saved, each, strict=True)]
            left -= each[0]
        items.append(replace(item, after_s=left))
    middle, least, most = saved
    now = training.seconds_now
    return replace(
        training,
        items=tuple(items),
        seconds_after=(training.seconds_after or now) - middle,
        low=(training.low or now) - most,
        high=(training.high or now) - least,
    )


def started_in(before: Training, seconds: float | None) -> Training:
    """Return the training as it goes where it starts in so many seconds, if that is sooner.

    The first run of a script reads the files of its libraries from the disk, those after it have
    them in memory. Of these only the whole start was timed: it is one line then.
    """
    first = _seconds(before.items, "start")
    if seconds is None or before.seconds_now is None or seconds >= first:
        return before
    rest = (item for item in before.items if item.part != "start")
    items = (Item("start", STARTED_AGAIN, 1, seconds), *rest)
    return replace(before, items=items, seconds_now=before.seconds_now - first + seconds)


def _start(startup: StartUp) -> Iterator[Item]:
    """The time up to the first step, taken apart as far as it was seen."""
    setup, evaluated = startup.setup_s, startup.evaluation_s or 0.0
    own = "set-up" if startup.first_step_s is not None else "set-up and first step"
    parts = {
        "imports": startup.imports_s,
        "evaluation before the training": evaluated or None,
        own: None if setup is None else max(0.0, setup - evaluated),
    }
    rest = startup.to_first_step_s
    for name, seconds in parts.items():
        if seconds is not None:
            rest -= seconds
            yield Item("start", name, 1, seconds)
    name = FIRST if startup.first_step_s is not None else START
    yield Item("start", name, 1, max(0.0, rest))


def _beside(evidence: Evidence, length: Length) -> Iterator[Item]:
    """The time between the steps: evaluations, ends of epochs, work between fits."""
    turn, many = evidence.outside_, 0
    spent = turn.spent if isinstance(turn, Outside) else ()
    if isinstance(turn, Outside) and turn.turn in BETWEEN_STEPS:
        many = length.steps // max(1, turn.steps)
    elif isinstance(turn, Outside) and turn.turn == "fit":
        many = length.fits
    elif evidence.between_epochs is not None and length.epochs:
        calls = spent if isinstance(turn, Outside) and turn.turn == "epoch" else ()
        yield from _ends(evidence.between_epochs, length.epochs, calls)
    for call in spent if many else ():
        yield Item("between", _named(call), many, many * call.seconds, where=call.where)


def _named(one: Spent) -> str:
    name = SPENT_ON[one.what]
    return f"{name} ({one.name})" if one.name and one.name not in name else name


def _ends(pause: BetweenEpochs, epochs: int, spent: Sequence[Spent]) -> Iterator[Item]:
    """The parts of what passes between epochs; after the last one nothing is opened again.

    Calls that were timed in place have lines of their own; callbacks make them.
    """
    calls = [call for call in spent if call.instead is not None]
    inside = sum(call.seconds for call in calls)
    callbacks = None if pause.callbacks_s is None else max(0.0, pause.callbacks_s - inside)
    known = {
        "validation": (pause.validation_s, epochs),
        "callbacks at the ends of epochs": (callbacks, epochs),
        "opening the input again": (pause.restart_s, epochs - 1),
    }
    rest = pause.seconds - inside
    for call in calls:
        yield Item("between", _named(call), epochs, epochs * call.seconds, where=call.where)
    for name, (seconds, many) in known.items():
        if seconds is not None:
            rest -= seconds
            if many:
                yield Item("between", name, many, many * seconds)
    if pause.first_s:
        yield Item("between", "the first time besides (tracing)", 1, pause.first_s)
    if rest > 0:
        yield Item("between", REST, epochs, epochs * rest)


def _seconds(items: Iterable[Item], part: ItemPart) -> float:
    """Seconds of the items of one part, without changes."""
    return sum(item.now_s for item in items if item.part == part)
