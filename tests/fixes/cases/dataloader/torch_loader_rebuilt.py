"""The cases of `torch_loader_rebuilt`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.torch_cases import LOADER, torch_evidence
from fixes.cases.dataloader._input_cases import LOOP, SHORT_EPOCHS, WITH_WORKERS, starved
from fixes.cases.dataloader.examples.hoisting import EXAMPLES
from trainperf.model import BetweenEpochs

REBUILT = replace(WITH_WORKERS, worker_start_s=1.0, built=6)

FIVE_EPOCHS = BetweenEpochs(1.1, 5, 50, restart_s=1.0)

examples = EXAMPLES

silent = [
    torch_evidence(),
    # built once
    torch_evidence(loader=replace(REBUILT, built=1), loop=SHORT_EPOCHS, between_epochs=FIVE_EPOCHS),
    # one each for training, validation and test, by one function
    torch_evidence(
        loader=replace(REBUILT, built=3),
        loop=SHORT_EPOCHS,
        between_epochs=BetweenEpochs(1.1, 2, 50, restart_s=1.0),
    ),
    # no workers: a loader is a small object
    torch_evidence(
        loader=replace(LOADER, built=6),
        loop=SHORT_EPOCHS,
        between_epochs=BetweenEpochs(0.002, 5, 50, restart_s=0.001),
    ),
    # long epochs
    torch_evidence(loader=REBUILT, between_epochs=replace(FIVE_EPOCHS, epoch_steps=500)),
    # often, in a loop that waits for nothing
    torch_evidence(loader=replace(REBUILT, built=40)),
    # no start was timed
    starved(replace(WITH_WORKERS, built=40)),
]

tries_not = [
    # built once, or every few steps; no workers; long epochs
    torch_evidence(loader=replace(REBUILT, built=1), loop=SHORT_EPOCHS, between_epochs=FIVE_EPOCHS),
    starved(replace(REBUILT, built=40), resident=None),
    torch_evidence(loader=replace(LOADER, built=6), loop=SHORT_EPOCHS, between_epochs=FIVE_EPOCHS),
    torch_evidence(loader=REBUILT, between_epochs=replace(FIVE_EPOCHS, epoch_steps=500)),
]

tries = [
    torch_evidence(
        loader=replace(REBUILT, worker_start_s=None),
        loop=SHORT_EPOCHS,
        between_epochs=replace(FIVE_EPOCHS, restart_s=None),
    ),
]

fires = [
    torch_evidence(loader=REBUILT, loop=SHORT_EPOCHS, between_epochs=FIVE_EPOCHS),
    torch_evidence(
        loader=replace(REBUILT, built=12), loop=SHORT_EPOCHS, between_epochs=FIVE_EPOCHS
    ),
    starved(replace(REBUILT, built=40), loop=LOOP),
    starved(replace(REBUILT, built=40, where=None, dataset="")),
]
