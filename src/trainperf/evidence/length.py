"""How long a training is configured to be, from the loops around its steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trainperf.evidence.events import Observed, site
from trainperf.model import Event, Length, Loop, Missing
from trainperf.model import words as units

EARLY = "early stopping may end it sooner"


def length(observed: Observed, loop: Loop) -> Length | Missing:
    """The length of the training in steps of `loop`, or why it is not known."""
    event = next(observed.of("length"), None)
    if event is None:
        return Missing("the run ended before it was known how long the training is to be")
    around: Sequence[Event] = event["loops"]
    own = around[0] if around else None  # which may count its turns, and not iterate the data
    counts = own and (own["turns"] is not None or str(own["text"]).startswith("while"))
    kinds = [event["e"] for event in observed.loop]
    made = round(kinds[: kinds.index("length")].count("step") * observed.steps_per_call)
    if loop.kind == "fit":
        counted = [cycle["turns"] for cycle in observed.of("cycle") if cycle.get("turns")]
        found = _fits(loop, around, statistics.fmean(counted) if counted else None)
    elif event["trainer"] is not None:
        found = _trained(loop, event["trainer"])
    elif loop.kind == "iterator" and not counts:
        found = _epochs(loop, around, made)
    elif not around:
        return Missing("no loop of the script was seen around its steps")
    else:  # it makes its own batches, or asks for each: the innermost loop makes the steps
        turns = _product(around, made * loop.batches_per_step)
        if isinstance(turns, Missing):
            return turns
        steps = turns // loop.batches_per_step
        found = Length(steps, units.count(steps, "step"), None, 1, site(own))
    if isinstance(found, Missing):
        return found
    others = sum(1 for _ in observed.of("other"))
    return replace(found, others=others, open=EARLY if loop.early_stopping else "")


def _fits(loop: Loop, around: Sequence[Event], apart: float | None) -> Length | Missing:
    """Calls of Keras's `fit`: epochs of so many steps, as often as the loops around it turn.

    `apart` are the turns that the innermost of them was seen to make from one call to the next.
    """
    if loop.epoch_steps is None:
        return Missing("it is not known how many steps an epoch has")
    many = _product(around)
    if isinstance(many, Missing):
        return many
    for outer in around[int(apart is not None) :]:
        if outer["sometimes"]:
            return Missing(f"`fit` does not come in each turn of `{_short(outer['text'])}`")
    about = ""
    if apart is not None and apart > 1:
        many, about = max(1, round(many / apart)), "about "
    epochs = (loop.epochs or 1) * many
    text = _in_epochs(epochs, loop.epoch_steps)
    if many > 1:
        text = f"{about}{units.count(many, 'call')} of `fit`, {text} in all"
    return Length(epochs * loop.epoch_steps, text, epochs, many, loop.where)


def _trained(loop: Loop, trainer: dict[str, Any]) -> Length | Missing:
    """The length that a library's trainer is given: the earlier of its steps and its epochs."""
    name, steps, epochs = str(trainer["name"]), trainer["steps"], trainer["epochs"]
    by_epochs = epochs * loop.epoch_steps if epochs and loop.epoch_steps else None
    known = [one for one in (steps, by_epochs) if one]
    if not known:
        return Missing(f"`{name}` has no end that was seen")
    total = int(min(known))
    turns = math.ceil(total / loop.epoch_steps) if loop.epoch_steps else None
    text = f"{units.count(total, 'step')}, as `{name}` is configured"
    return Length(total, text, turns, 1, loop.where)


def _epochs(loop: Loop, around: Sequence[Event], made: int) -> Length | Missing:
    """A loop over a dataset within others: the innermost is its own, the others count epochs."""
    own, others = (around[0], around[1:]) if around else (None, ())
    steps = loop.epoch_steps
    per_step = loop.batches_per_step
    if own is not None and own["each"] is not None:
        each = math.ceil(own["each"] / per_step)
        steps = each if steps is None else min(steps, each)
    most = None if own is None or own["left"] is None else made + own["left"] // per_step
    many = _product(others)
    whole = None if steps is None or isinstance(many, Missing) else many * steps
    if whole is None and most is None:
        unknown = Missing("it is not known how many steps an epoch has")
        return many if isinstance(many, Missing) else unknown
    total = min(known for known in (whole, most) if known is not None)
    epochs = None if whole is None or steps is None else math.ceil(total / steps)
    text = f"{units.count(total, 'step')}, until its counter ends it"
    if total == whole and epochs and steps:
        text = _in_epochs(epochs, steps)
    where = site(others[0]) if others and whole is not None else loop.where
    return Length(total, text, epochs, 1, where)


def _product(around: Sequence[Event], made: int | None = None) -> int | Missing:
    """The turns of loops within each other; `made` are those of the innermost until now.

    Loops that end by a counter which goes on in the next turn of the one around them, and which
    ends that one as well (`while len(losses) < most` in another), are as long as the longest.
    """
    total = 1
    for number, one in enumerate(around):
        done = made if number == 0 and made is not None else 0
        known = [turns for turns in (one["turns"], one["each"]) if turns is not None]
        if one["left"] is not None:
            known.append(done + one["left"])
        if not known:
            return Missing(f"how often `{_short(one['text'])}` turns is not known")
        if number and made is not None and one["turns"] is None and one["each"] is None:
            total = max(total, made + min(known))
        else:
            total *= min(known)
    return total


def _short(text: str) -> str:
    """The header of a loop without its colon and what follows it."""
    return text.rstrip().rstrip(":")


def _in_epochs(epochs: int, steps: int) -> str:
    return f"{units.count(epochs, 'epoch')} of {units.count(steps, 'step')}"
