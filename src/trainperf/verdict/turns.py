"""Verdicts on what passes beside the training steps: between calls of `fit`, in evaluations."""

from __future__ import annotations

from trainperf.fixes import concern
from trainperf.fixes.common.words import at, ms, percent
from trainperf.model import Bottleneck, Evidence, Finding, Missing, Outside, Spent
from trainperf.model.outside import MOST_OF_IT, SPENT_ON

NOT_HEALTHY = 0.2
"""Beyond this share nothing that is said of the steps alone makes a training healthy."""

PLACES = {
    "fit": "each pass of the loop around `fit`",
    "epoch": "each epoch with what follows it",
    "evaluation": "what passes from one evaluation to the next",
    "pause": "what passes from one pause between steps to the next",
    "step": "each step",
}
"""A turn's name in a sentence."""

CALLS = ("predict", "predict_on_batch", "evaluate", "test_on_batch")
"""Methods of a Keras model."""


def mostly_outside(
    evidence: Evidence, findings: tuple[Finding, ...]
) -> tuple[Bottleneck, str] | None:
    """The verdict where most of the time is no training step, or the first finding is of that."""
    turn = evidence.outside_
    if isinstance(turn, Missing) or not turn.spent:
        return None
    if turn.share <= MOST_OF_IT and not (findings and concern(findings[0]) == "outside"):
        return None
    first, also = _first(turn)
    least = "" if turn.whole else "at least "
    return "host", (
        f"Held up outside the training steps: they take {percent(turn.training_s / turn.seconds)} "
        f"of {PLACES[turn.turn]} ({least}{ms(turn.seconds)}); {least}{percent(first.share)} goes "
        f"into {named(first)}{also}."
    )


def beside_the_steps(evidence: Evidence, examined: bool) -> str:
    """Why the steps alone, `examined` or not, do not make a training healthy; "" where they do."""
    turn = evidence.outside_
    if isinstance(turn, Missing):
        if evidence.around is None:
            return ""
        return (
            "Nothing to repair was found in the steps of `fit`; what stands between its calls, in "
            f"the loop at {at(evidence.around)}, was not examined: {turn.reason}."
        )
    return _said(turn, examined) if turn.share > NOT_HEALTHY else ""


def _said(turn: Outside, examined: bool) -> str:
    found = "Nothing to repair was found in the training steps, but they take only"
    text = (
        f"{found if examined else 'The training steps were not examined; they take'} "
        f"{percent(turn.training_s / turn.seconds)} of {PLACES[turn.turn]} ({ms(turn.seconds)})"
    )
    return f"{text}; most of the rest is {named(turn.spent[0])}." if turn.spent else f"{text}."


def _first(turn: Outside) -> tuple[Spent, str]:
    """The part to name, and words for what comes with it.

    That is the longest. But in a pause nothing else stands than what makes it, so what is not
    known in one comes with what is.
    """
    first = turn.spent[0]
    known = next((one for one in turn.spent if one.what != "other" or one.name), first)
    if turn.turn != "pause" or known is first:
        return first, ""
    return known, f", and {percent(first.share)} into what comes with it"


def named(one: Spent) -> str:
    """The work in a sentence: "`model.predict` (200 calls, …)"."""
    if one.name in CALLS and one.calls is not None:
        text = f"`model.{one.name}`"
    elif one.name:
        text = f"`{one.name}`"
    else:
        text = SPENT_ON[one.what]
    called = f"{one.calls:.0f} calls" if one.calls and one.calls >= 2 else ""
    inside = ", ".join(filter(None, (called, at(one.where))))
    return f"{text} ({inside})" if inside else text
