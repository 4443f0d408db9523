"""Evaluations that take a large part of the training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.trainers import KEY
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.practice._evaluation_edits import (
    SELDOM,
    check_unwatched,
    evaluate_seldom,
    validate_seldom,
)
from trainperf.model import BetweenEpochs, Equivalence, Evidence, Finding

if TYPE_CHECKING:
    from trainperf.rewrite import Script

LEAST_SHARE = 1 / 3
"""Evaluation costs a forward where training costs three: a third of the time is as much data."""

VALIDATION_SHARE = 0.25
"""That of Keras's validation, which is compiled: a fifth of the data costs less."""

LEAST_SECONDS = 0.5
"""A shorter validation belongs to toy epochs ..."""

MOST_SHARE = 0.5
"""... unless it takes more than half of all time."""

WITHOUT = frozenset({"CSVLogger", "LearningRateScheduler", "TensorBoard", "TerminateOnNaN"})
"""Callbacks that do the same after an epoch without validation; others may go by it."""


class EvaluationBetween(Fix):
    """Evaluate less often, or on less data.

    ## Why it is slow
    While a model is evaluated it does not train. An evaluation every few steps, or of as much
    data as was trained on since the last, takes as long as the training itself or longer.

    ## What changes
    Every fifth evaluation is left: `fit(..., validation_freq=5)`, a condition in the loop over
    epochs, or a longer interval. Its curve has fewer points; the training stays as it is.

    ## When not to
    - Early stopping, schedules and the choice of the best checkpoint need it often enough.
    - Short trial runs, whose purpose is the curve.
    """

    category = "host"
    concerns = "outside"
    equivalence = Equivalence.SEMANTICS
    framework = "any"
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find evaluations that take more than a third of what the script repeats."""
        pause = evidence.between_epochs
        if evidence.loop.kind == "fit" and pause is not None and pause.validation_s is not None:
            return self._validation(evidence, pause)
        turn = evidence.outside
        if turn.turn == "epoch" and evidence.framework.name == "tensorflow":
            return None
        found = [one for one in turn.spent if one.what == "evaluation"]
        seconds = sum(one.seconds for one in found)
        if not found or seconds < LEAST_SHARE * turn.seconds:
            return None
        where = tuple(one.where for one in found if one.where is not None)
        place = f" ({at(where[0])})" if where else ""
        after = {
            "fit": "after each `fit`",
            "epoch": f"after each epoch of {turn.steps} steps",
            "evaluation": f"every {turn.steps} steps",
            "step": "in each step",
        }[turn.turn]
        least = "" if turn.whole else "at least "
        return self.finding(
            title=f"Evaluation takes {percent(seconds / turn.seconds)} of the time",
            text=f"The model is evaluated {after}{place}: {least}{ms(seconds)}, beside the "
            f"{ms(turn.training_s)} that the training steps take meanwhile.",
            bound=turn.seconds / max(turn.seconds - seconds, 1e-9),
            bound_basis="all of the evaluation",
            where=where,
            advice="Evaluate less often, on fewer batches, or on larger ones: without gradients "
            "more of them fit into memory.",
            rewritable=None if turn.turn in ("epoch", "evaluation") else False,
            data={
                "seconds": seconds,
                "turn_s": turn.seconds,
                "outside": turn.turn != "evaluation",
            },
        )

    def _validation(self, evidence: Evidence, pause: BetweenEpochs) -> Finding | None:
        """Find a validation of `fit` that takes a quarter of each epoch."""
        loop = evidence.loop
        steps = pause.epoch_steps or loop.epoch_steps
        if not pause.sure or loop.epochs == 1 or not steps:
            return None
        pause = pause.without_tracing(evidence.startup)
        taken = pause.validation_s or 0.0
        epoch_s = steps * evidence.times.real + pause.seconds
        share = taken / epoch_s
        bound = epoch_s / (epoch_s - taken)
        short = taken < LEAST_SECONDS and share < MOST_SHARE
        if share < VALIDATION_SHARE or short or not worth(evidence, bound):
            return None
        others = sorted(set(loop.callbacks_given) - WITHOUT)
        used = f" {others[0]} may go by it." if others else ""
        every = _every(loop.epochs)
        return self.finding(
            title=f"Validation takes {percent(share)} of each epoch",
            text=f"After each epoch of {steps} steps ({ms(epoch_s - pause.seconds)}), `fit` "
            f"validates for {ms(taken)}.{used}",
            bound=bound,
            bound_basis="all of the validation",
            where=(loop.where,) if loop.where is not None else (),
            advice="Validate every few epochs, or on fewer steps.",
            snippet=f"model.fit(..., validation_freq={every})",
            rewritable=False if others else None,
            data={"validation_freq": every, "outside": True},
        )

    def write(self, script: Script, finding: Finding) -> None:
        """Make the repair, unless a library's loop goes by what each evaluation gives."""
        held = finding.data.get(KEY)
        if held is not None:
            check_unwatched(script, (*(site.file for site in finding.where), *held["scripts"]))
        super().write(script, finding)

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have `fit` validate, or what evaluates come, less often."""
        every = finding.data.get("validation_freq")
        if every:
            validate_seldom(script, finding.where[0], every)
            return
        for site in finding.where:
            evaluate_seldom(script, site)


def _every(epochs: int | None) -> int:
    """Epochs from one validation to the next, so that the last epoch is validated, if it can."""
    fits = (every for every in range(SELDOM, 1, -1) if epochs is not None and epochs % every == 0)
    return next(fits, SELDOM)
