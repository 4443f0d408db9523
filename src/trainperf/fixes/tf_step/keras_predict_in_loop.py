"""`model.predict` in a Python loop, for one small batch at a time."""

from __future__ import annotations

from dataclasses import replace

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import SITE, evidence
from trainperf.fixes.common.words import SMALLEST_GAIN, at, ms, percent
from trainperf.model import Equivalence, Evidence, Finding, Outside, Site, Spent

LEAST_CALLS = 10
"""So many calls between two of `fit` are a loop over small inputs, not a prediction of a set."""

LONGEST_S = 0.2
"""A call that takes longer works on more than a batch: there `predict` is the right thing."""

CALL = Site("train.py", 27, "main", col=18, end_line=27, end_col=49)

SNIPPET = """\
compiled = tf.function(lambda x: model(x, training=False))  # once, before the loop

preds = compiled(tf.constant(x)).numpy()  # instead of model.predict(x)
"""

CALLED = Spent("prediction", 12.0, 0.92, "predict", calls=200, where=CALL)
BETWEEN_FITS = Outside("fit", 13.0, 32, 0.6, (CALLED,), loop=SITE)
IN_STEPS = Outside(
    "step", 0.1, 1, 0.04, (Spent("prediction", 0.06, 0.6, "predict", calls=1, where=CALL),)
)


class PredictInLoop(Fix):
    """Call the model itself instead of `predict` for one small batch at a time.

    ## Why it is slow
    `predict` is made for many batches. Each call builds a dataset and an iterator, begins a
    loop with callbacks and a progress bar, and copies the result: tens of milliseconds, for a
    model that may need one. Keras's documentation says to use `model(x)` for inputs that fit
    into one batch. Uncompiled, that runs each layer from Python; a `tf.function` around it does
    not.

    ## What changes
    The same outputs, as a tensor instead of an array. Several inputs that do not depend on one
    another go into one call.

    ## When not to
    - For a whole set of data: `predict` batches it, and keeps the device busy.
    - A `tf.function` traces anew for each shape: give the batch a fixed one, or
      `reduce_retracing=True`.
    """

    category = "host"
    concerns = "outside"
    equivalence = Equivalence.EXACT
    counted = True

    silent = [
        evidence(),
        # a few calls: a set of data is predicted
        evidence(
            outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, calls=1, seconds=0.15),)),
        ),
        # calls that take long work on many batches
        evidence(outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, calls=20),))),
        # nothing of it would be felt
        evidence(outside_=replace(BETWEEN_FITS, seconds=400.0)),
        # it is lean already
        evidence(
            outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, name="predict_on_batch"),)),
        ),
    ]
    fires = [
        evidence(outside_=BETWEEN_FITS),
        evidence(outside_=replace(BETWEEN_FITS, whole=False)),
        evidence(outside_=IN_STEPS),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find many short calls of `predict` where each turn spends its time in them."""
        turn = evidence.outside
        found = [one for one in turn.spent if _in_loop(one, turn)]
        if not found:
            return None
        seconds = sum(one.seconds for one in found)
        calls = sum(one.calls or 0.0 for one in found)
        bound = turn.seconds / max(turn.seconds - seconds, 1e-9)
        if bound <= 1 + SMALLEST_GAIN:
            return None
        where = tuple(one.where for one in found if one.where is not None)
        place = f" ({', '.join(at(site) for site in where)})" if where else ""
        share = percent(seconds / turn.seconds)
        if turn.turn == "step":
            often = f"{calls:.3g} times in each step"
            rest = f"{ms(seconds)} of a step of {ms(turn.seconds)}"
        else:
            after = "calls of `fit`" if turn.turn == "fit" else "epochs"
            often = f"{calls:.0f} times between two {after}"
            if not turn.whole:
                often = f"at least {often}"
            rest = f"{ms(seconds)} beside the {ms(turn.training_s)} that the training steps take"
        return self.finding(
            title=f"`model.predict` in a Python loop takes {share} of the time",
            text=f"`model.predict` is called {often}{place}, {ms(seconds / calls)} a call: {rest}. "
            "Each builds a dataset of its own and begins a loop over it.",
            bound=bound,
            bound_basis="all that these calls take",
            where=where,
            advice="Call the compiled model on the batch: `model(x, training=False)` under a "
            "tf.function. Where inputs do not depend on one another, give it several at a time.",
            snippet=SNIPPET,
            data={"calls": calls, "seconds": seconds, "turn_s": turn.seconds},
        )


def _in_loop(one: Spent, turn: Outside) -> bool:
    if one.name != "predict" or not one.calls or one.seconds / one.calls > LONGEST_S:
        return False
    return turn.turn == "step" or one.calls >= LEAST_CALLS
