"""The cases of `evaluation_between`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence
from fixes.cases.common.torch_cases import torch_evidence
from fixes.cases.practice._evaluation_edits import EXAMPLES
from trainperf.model import (
    BetweenEpochs,
    Loop,
    Outside,
    Site,
    Spent,
    StartUp,
)

FITTED = Loop("fit", where=SITE, batch_size=32, epochs=50, epoch_steps=100, has_validation=True)

CALL = Site("train.py", 40, "estimate_loss", col=4, end_line=40, end_col=16)

TAKES = Spent("evaluation", 6.0, 0.6, "estimate_loss", calls=1, where=CALL)

OFTEN = Outside("evaluation", 10.0, 10, 4.0, (TAKES,))

silent = [
    evidence(),
    # a fifth of the time
    evidence(outside_=replace(OFTEN, seconds=30.0, training_s=24.0)),
    # `fit` validates after its epochs: that is told by its own time
    evidence(outside_=replace(OFTEN, turn="epoch")),
    # an ordinary validation set; a toy; the first validation, most of which is tracing
    evidence(between_epochs=BetweenEpochs(11.0, 1, 1000, validation_s=10.5)),
    evidence(loop=FITTED, real=0.005, between_epochs=BetweenEpochs(0.3, 2, 100, 0.29)),
    evidence(
        loop=FITTED,
        startup=StartUp(9.0, tracing_s=4.0),
        between_epochs=BetweenEpochs(6.0, 1, 100, validation_s=5.5),
    ),
    # something else
    torch_evidence(outside_=replace(OFTEN, spent=(replace(TAKES, what="other"),))),
]

fires = [
    torch_evidence(outside_=OFTEN),
    torch_evidence(outside_=replace(OFTEN, turn="epoch", steps=100)),
    evidence(outside_=replace(OFTEN, turn="fit", loop=SITE)),
    evidence(loop=FITTED, between_epochs=BetweenEpochs(20.0, 2, 100, validation_s=18.0)),
    # what stops early goes by it: told of, and left as it is
    evidence(
        loop=replace(FITTED, callbacks_given=("EarlyStopping",)),
        between_epochs=BetweenEpochs(20.0, 2, 100, validation_s=18.0),
    ),
]

examples = EXAMPLES
