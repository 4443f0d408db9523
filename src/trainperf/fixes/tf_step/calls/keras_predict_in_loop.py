"""`model.predict` in a Python loop, for one small batch at a time."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import partial
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.words import SMALLEST_GAIN, at, make_those_that_can_be, ms, percent
from trainperf.model import Equivalence, Evidence, Finding, InPlace, Missing, Outside, Site, Spent
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, starred

NEEDLESS = frozenset({"x", "batch_size", "verbose"})
"""Arguments of `predict` that have no meaning for one batch, and its input."""

SNIPPET = "preds = model.predict_on_batch(x)  # instead of model.predict(x, verbose=0)"


class PredictInLoop(Fix):
    """Use `predict_on_batch` instead of `predict` for one small batch at a time.

    ## Why it is slow
    `predict` is made for many batches. Each call builds a dataset and an iterator, begins a
    loop with callbacks and a progress bar, and copies the result: tens of milliseconds, for a
    model that may need one. `predict_on_batch` calls the same compiled function on the batch,
    without all that: 43 ms became 0.9 ms for a small LSTM (Keras 3.15). `model(x)` is no
    remedy by itself, as it runs each layer from Python.

    ## What changes
    Nothing: the same function gives the same array. What `predict` is told about batches and
    its progress bar is left out. Inputs that do not depend on one another are better given to
    one call, several at a time.

    ## When not to
    - For a whole set of data: `predict` batches it, and keeps the device busy.
    - For inputs of ever new shapes: the function is traced anew for them, as by `predict`.
    """

    category = "host"
    concerns = "outside"
    equivalence = Equivalence.EXACT
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find many short calls of `predict` where each turn spends its time in them."""
        calls = ModelCalls.of(evidence, "predict")
        if calls is None:
            return None
        return self.finding(
            title=f"`model.predict` in a Python loop takes {calls.share} of the time",
            text=f"`model.predict` is called {calls.said()}. Each builds a dataset of its own and "
            f"begins a loop over it.{calls.timed()}",
            bound=calls.bound,
            bound_basis=calls.basis,
            where=calls.where,
            advice="Call `predict_on_batch` on what is one batch. Where inputs do not depend on "
            "one another, give it several at a time.",
            snippet=SNIPPET,
            rewritable=None if any(is_batch(rows) for rows in calls.rows) else False,
            data=calls.data(),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call `predict_on_batch`, without what only `predict` takes; as many as can be."""
        calls = zip(finding.where, finding.data["rows"], strict=True)
        make_those_that_can_be(
            script, (partial(_on_batch, site=site, rows=rows) for site, rows in calls)
        )


def _on_batch(script: Script, site: Site, rows: int | None) -> None:
    """Have the call at `site` be one of `predict_on_batch`."""
    call = script.call(site)
    if not is_batch(rows):
        raise CannotRewrite("what `predict` is given was not seen to be one small batch")
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "predict":
        raise CannotRewrite("it is not called as `predict` of a model")
    if starred(call) or len(call.args) > 1:
        raise CannotRewrite("not all of its arguments are named")
    if {each.arg for each in call.keywords} - NEEDLESS:
        raise CannotRewrite("`predict` is told more than its input")
    size = argument(call, "batch_size")
    if size is not None and not _holds(size, rows or 0):
        raise CannotRewrite("`predict` may take what it is given in several batches")
    given = script.argument(site, 0, "x")
    if given is None:
        raise CannotRewrite("`predict` is given nothing")
    model = script.expression(script.receiver(site))
    script.replace_call(site, f"{model}.predict_on_batch({script.expression(given)})")


def _holds(size: ast.expr, rows: int) -> bool:
    if not isinstance(size, ast.Constant):
        return False
    return size.value is None or (isinstance(size.value, int) and size.value >= rows)


LEAST_CALLS = 10
"""So many calls between two of `fit` are a loop over small inputs, not a prediction of a set.
One call is such a one where it was given no more than a batch."""

LONGEST_S = 0.2
"""A call that takes longer works on more than a batch: there `predict` is the right thing."""

NOTHING = 0.01
"""The share of a turn below which its rest lies within the error of the times: no bound then."""

ONE_BATCH = 32
"""Samples that `predict` takes as one batch by default; as many are no trouble for any memory."""

ROUNDING = 1e-4
"""Results that differ by no more than this share of the largest number differ in rounding."""

FEWEST_TURNS = 24
"""A leg of a trial ends with the training: it needs so many turns for its slices."""


@dataclass(frozen=True)
class ModelCalls:
    """The calls of one name in a turn, with the upper bound of what leaving them out gives.

    `bound` is None where next to nothing is left of a turn without them.
    """

    evidence: Evidence
    found: tuple[Spent, ...]
    bound: float | None

    @classmethod
    def of(cls, evidence: Evidence, name: str) -> ModelCalls | None:
        """Those of a loop over small inputs; None where they take nothing that would be felt."""
        turn = evidence.outside
        found = tuple(one for one in turn.spent if one.name == name and _in_loop(one, turn))
        left = turn.seconds - sum(
            one.seconds if one.instead is None else _saved_s(one, one.instead.ratio)
            for one in found
        )
        bound = turn.seconds / left if left > NOTHING * turn.seconds else None
        if not found or (bound is not None and bound <= 1 + SMALLEST_GAIN):
            return None
        return cls(evidence, found, bound)

    @property
    def seconds(self) -> float:
        """Seconds that they take in one turn."""
        return sum(one.seconds for one in self.found)

    @property
    def calls(self) -> float:
        """How many there are in one turn."""
        return sum(one.calls or 0.0 for one in self.found)

    @property
    def share(self) -> str:
        """Their share of a turn, in words."""
        return percent(self.seconds / self.evidence.outside.seconds)

    @property
    def basis(self) -> str:
        """What the bound rests on."""
        if self.bound is None:
            return "next to nothing is left of it without these calls"
        if any(one.instead for one in self.found):
            return "what `predict_on_batch` leaves of these calls, timed in place"
        return "all that these calls take"

    @property
    def where(self) -> tuple[Site, ...]:
        """Their places, those that are known."""
        return tuple(one.where for one in self.found if one.where is not None)

    @property
    def rows(self) -> list[int | None]:
        """The most samples that was given at each place; None where it is not to be edited."""
        return [
            None if one.instead is not None and not _same(one.instead) else one.rows
            for one in self.found
            if one.where is not None
        ]

    def said(self) -> str:
        """How often, where and how long: "10 times in each step (train.py:66), 2 ms a call: …"."""
        turn = self.evidence.outside
        place = f" ({', '.join(at(site) for site in self.where)})" if self.where else ""
        if turn.turn == "step":
            often = f"{self.calls:.3g} times in each step"
            rest = f"{ms(self.seconds)} of a step of {ms(turn.seconds)}"
        else:
            after = "calls of `fit`" if turn.turn == "fit" else "epochs"
            often = f"{self.calls:.0f} times between two {after}"
            if not turn.whole:
                often = f"at least {often}"
            rest = (
                f"{ms(self.seconds)} beside the {ms(turn.training_s)} that the training steps take"
            )
        return f"{often}{place}, {ms(self.seconds / self.calls)} a call: {rest}"

    def timed(self) -> str:
        """What was measured in place, in sentences that begin with a space; "" if nothing was."""
        known = [(one.where, one.instead) for one in self.found if one.instead is not None]
        return "".join(
            f" On the same inputs `predict_on_batch` took {ms(one.instead_s)}"
            f"{f' at {at(where)}' if len(known) > 1 else ''} ({one.pairs} pairs) and {_gave(one)}."
            for where, one in known
        )

    def data(self) -> dict[str, Any]:
        """The figures, and how a repair is tried."""
        return {
            "calls": self.calls,
            "seconds": self.seconds,
            "turn_s": self.evidence.outside.seconds,
            "rows": self.rows,
            **self._in_place(),
            **outside_steps(self.evidence),
        }

    def _in_place(self) -> dict[str, Any]:
        """What the edit gives a turn that was seen whole, by what was timed in place.

        `ratios` are of each place: how many times as quick, at least, at most.
        """
        turn = self.evidence.outside
        there = [one for one in self.found if one.where is not None]
        known = [_standing(one) for one in there]
        ratios = [None if one is None else (one.ratio, one.low, one.high) for one in known]
        if not turn.whole or not any(ratios):
            return {}

        def gain(which: int) -> float:
            pairs = zip(there, ratios, strict=True)
            saved = sum(_saved_s(one, ratio[which]) for one, ratio in pairs if ratio)
            return turn.seconds / (turn.seconds - saved)

        speedup, low, high = map(gain, range(3))
        pairs = min(one.pairs for one in known if one)
        measured = {"speedup": speedup, "low": low, "high": high, "pairs": pairs}
        return {"in_place": {**measured, "ratios": ratios, "turn": turn.turn}}


def is_batch(rows: int | None) -> bool:
    """Whether so many samples are one small batch; None is not known."""
    return rows is not None and rows <= ONE_BATCH


def _saved_s(one: Spent, ratio: float) -> float:
    """Seconds of a turn that these calls save where they are so many times as quick."""
    return one.seconds * (1 - 1 / ratio)


def _standing(one: Spent) -> InPlace | None:
    """What was measured of what may stand for these calls: it returns the same."""
    return one.instead if one.instead is not None and _same(one.instead) else None


def _same(one: InPlace) -> bool:
    return one.apart <= ROUNDING


def _gave(one: InPlace) -> str:
    if one.apart == 0:
        return "returned the same numbers"
    if _same(one):
        return f"returned the same numbers but for rounding (at most {one.apart:.0e} apart)"
    return f"returned others (up to {percent(one.apart)} apart), so that it does not stand for them"


def _in_loop(one: Spent, turn: Outside) -> bool:
    if not one.calls or one.seconds / one.calls > LONGEST_S:
        return False
    return turn.turn == "step" or one.calls >= LEAST_CALLS or is_batch(one.rows)


def outside_steps(evidence: Evidence) -> dict[str, Any]:
    """Return what a finding's data says of how it is tried; nothing where it saves in steps.

    A turn of a long training is a slice; of a short one nothing can be compared.
    """
    turn, loop, length = evidence.outside, evidence.loop, evidence.length_
    if turn.turn in ("step", "evaluation", "pause"):
        return {}
    turns: int | None = None
    if not isinstance(length, Missing):
        turns = length.fits if turn.turn == "fit" else length.epochs
    if not turns or turns < FEWEST_TURNS or loop.steps_per_execution > 1:
        return {"outside": True}
    epoch = {"steps": turn.steps, "seconds": turn.seconds, "pause_s": 0.0, "written": True}
    return {"epoch": epoch}
