"""The cases of `early_stopping`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence
from trainperf.model import Loop

LONG = Loop("fit", where=SITE, batch_size=32, epochs=100, epoch_steps=1000, has_validation=True)

silent = [
    evidence(),
    evidence(loop=replace(LONG, early_stopping=True)),
    evidence(loop=replace(LONG, epochs=10)),
    evidence(loop=replace(LONG, epochs=None)),
    # nothing to stop by
    evidence(loop=replace(LONG, has_validation=False)),
    # a loop of the user's own may stop itself: not to be seen from outside
    evidence(loop=replace(LONG, kind="iterator")),
    # a callback of the user's that stops by itself, by its name
    evidence(loop=replace(LONG, callbacks_given=("MyEarlyStopping",))),
]

fires = [
    evidence(loop=LONG),
    evidence(loop=replace(LONG, callbacks_given=("ModelCheckpoint",))),
]
