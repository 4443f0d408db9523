"""Answers for what passes beside the training steps: between calls of `fit`, in evaluations."""

from __future__ import annotations

from trainperf.fixes import concern
from trainperf.fixes.common.words import at, ms, percent
from trainperf.model import Evidence, Missing, Spent
from trainperf.model.outside import MOST_OF_IT, SPENT_ON
from trainperf.verdict.answer import Answer, Case

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


def mostly_outside(case: Case) -> Answer | None:
    """The answer where most of the time is no training step, or the first finding is of that."""
    turn = case.evidence.outside_
    if isinstance(turn, Missing) or not turn.spent:
        return None
    first = "step" if case.first is None else concern(case.first)
    if turn.share <= MOST_OF_IT and first not in ("outside", "epoch end"):
        return None
    # In a pause nothing else stands than what makes it: what is not known comes with what is.
    longest = named = turn.spent[0]
    if turn.turn == "pause":
        known = (spent for spent in turn.spent if spent.what != "other" or spent.name)
        named = next(known, longest)
    also = ""
    if named is not longest:
        also = f", and {percent(longest.share)} into what comes with it"
    least = "" if turn.whole else "at least "
    text = (
        f"Held up outside the training steps: they take {percent(turn.training_s / turn.seconds)} "
        f"of {PLACES[turn.turn]} ({least}{ms(turn.seconds)}); {least}{percent(named.share)} goes "
        f"into {_work(named)}{also}"
    )
    return Answer("host", text)


def beside_the_steps(evidence: Evidence, examined: bool) -> Answer | None:
    """Why the steps alone, `examined` or not, make no training healthy; None where they do."""
    turn = evidence.outside_
    if isinstance(turn, Missing):
        if evidence.around is None:
            return None
        text = (
            "Nothing to repair was found in the steps of `fit`; what stands between its calls, in "
            f"the loop at {at(evidence.around)}, was not examined: {turn.reason}"
        )
        return Answer("none", text, grade="not examined")
    if turn.share <= NOT_HEALTHY:
        return None
    found = "Nothing to repair was found in the training steps, but they take only"
    text = (
        f"{found if examined else 'The training steps were not examined; they take'} "
        f"{percent(turn.training_s / turn.seconds)} of {PLACES[turn.turn]} ({ms(turn.seconds)})"
    )
    if turn.spent:
        text += f"; most of the rest is {_work(turn.spent[0])}"
    return Answer("none", text, grade="not examined")


def _work(spent: Spent) -> str:
    """The work in a sentence: "`model.predict` (200 calls, …)"."""
    text = SPENT_ON[spent.what]
    if spent.name:
        method = spent.name in CALLS and spent.calls is not None
        text = f"`model.{spent.name}`" if method else f"`{spent.name}`"
    called = f"{spent.calls:.0f} calls" if spent.calls and spent.calls >= 2 else ""
    inside = ", ".join(filter(None, (called, at(spent.where))))
    return f"{text} ({inside})" if inside else text
