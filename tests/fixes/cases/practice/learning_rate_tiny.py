"""The cases of `learning_rate_tiny`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence
from trainperf.model import FrozenBase, Loop, ModelFacts

MODEL = ModelFacts(
    "model",
    "Functional",
    optimizer="Adam",
    learning_rate=1e-4,
    compute_layers={"Conv2D": 53, "Dense": 1},
    compile_where=SITE,
)

ATTENTION = replace(MODEL, compute_layers={"MultiHeadAttention": 6, "Dense": 12})

silent = [
    evidence(),
    evidence(model=replace(MODEL, learning_rate=1e-3)),
    evidence(model=replace(MODEL, learning_rate=3e-4)),
    # a schedule, or a callback that sets the rate, starts or ends small
    evidence(model=replace(MODEL, learning_rate_scheduled=True)),
    evidence(
        model=MODEL,
        loop=Loop("fit", where=SITE, callbacks_given=("LearningRateScheduler",)),
    ),
    evidence(model=MODEL, loop=Loop("fit", where=SITE, callbacks_given=("WarmUpCosine",))),
    # ordinary for attention, and for AdamW
    evidence(model=ATTENTION),
    evidence(model=replace(MODEL, optimizer="AdamW", learning_rate=2e-5)),
    # fine-tuning: what comes first does not train
    evidence(model=replace(MODEL, frozen=FrozenBase(3, 2_200_000, 128_100, 5120))),
    evidence(model=replace(MODEL, learning_rate=None)),
]

fires = [
    evidence(model=MODEL),
    evidence(model=replace(MODEL, learning_rate=9.999999747378752e-05)),
    evidence(model=replace(MODEL, optimizer="SGD", learning_rate=1e-5)),
    evidence(model=replace(ATTENTION, learning_rate=1e-6)),
]
