"""Evaluations that take a large part of the training."""

from __future__ import annotations

from dataclasses import replace

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import SITE, evidence
from trainperf.fixes.common.torch_cases import torch_evidence
from trainperf.fixes.common.words import at, ms, percent
from trainperf.model import Equivalence, Evidence, Finding, Outside, Site, Spent

LEAST_SHARE = 1 / 3
"""Evaluation costs a forward where training costs three: a third of the time is as much data."""

CALL = Site("train.py", 40, "estimate_loss")
TAKES = Spent("evaluation", 6.0, 0.6, "estimate_loss", calls=1, where=CALL)
OFTEN = Outside("evaluation", 10.0, 10, 4.0, (TAKES,))


class EvaluationBetween(Fix):
    """Evaluate less often, or on less data.

    ## Why it is slow
    While a model is evaluated it does not train. An evaluation every few steps, or of as much
    data as was trained on since the last, takes as long as the training itself or longer.

    ## What changes
    The loss curve of the evaluation has fewer points, or noisier ones. The training stays as
    it is.

    ## When not to
    - Early stopping, schedules and the choice of the best checkpoint need it often enough.
    - Short trial runs, whose purpose is the curve.
    """

    category = "host"
    concerns = "outside"
    equivalence = Equivalence.SEMANTICS
    framework = "any"
    counted = True

    silent = [
        evidence(),
        # a fifth of the time
        evidence(outside_=replace(OFTEN, seconds=30.0, training_s=24.0)),
        # `fit` validates after its epochs: that is told by another fix
        evidence(outside_=replace(OFTEN, turn="epoch")),
        # something else
        torch_evidence(outside_=replace(OFTEN, spent=(replace(TAKES, what="other"),))),
    ]
    fires = [
        torch_evidence(outside_=OFTEN),
        torch_evidence(outside_=replace(OFTEN, turn="epoch", steps=100)),
        evidence(outside_=replace(OFTEN, turn="fit", loop=SITE)),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find evaluations that take more than a third of what the script repeats."""
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
            data={"seconds": seconds, "turn_s": turn.seconds},
        )
