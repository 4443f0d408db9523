"""Calls of a model in a Python loop that do not train: what they take of a turn, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainperf.fixes.common.words import SMALLEST_GAIN, at, ms, percent
from trainperf.model import Evidence, InPlace, Missing, Outside, Site, Spent

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
            one.seconds if one.instead is None else _saved_s(one, one.instead.high) for one in found
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
