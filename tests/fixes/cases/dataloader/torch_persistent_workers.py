"""The cases of `torch_persistent_workers`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE
from fixes.cases.common.torch_cases import LOADER, torch_evidence
from fixes.cases.dataloader._input_cases import SHORT_EPOCHS, WITH_WORKERS
from rewriting import Example
from trainperf.model import BetweenEpochs, Loop

SLOW_START = replace(WITH_WORKERS, worker_start_s=2.0, start_method="spawn")

silent = [
    torch_evidence(),
    # long epochs
    torch_evidence(loader=SLOW_START),
    # no workers, or workers that stay
    torch_evidence(loader=replace(LOADER, worker_start_s=2.0), loop=SHORT_EPOCHS),
    torch_evidence(loader=replace(SLOW_START, persistent_workers=True), loop=SHORT_EPOCHS),
    # one epoch only
    torch_evidence(loader=SLOW_START, loop=replace(SHORT_EPOCHS, epochs=1)),
    # a loader for each epoch: nothing stays
    torch_evidence(
        loader=replace(SLOW_START, built=6),
        loop=SHORT_EPOCHS,
        between_epochs=BetweenEpochs(2.1, 5, 50, restart_s=2.0),
    ),
    # nothing says how long a start takes, or an epoch
    torch_evidence(loader=WITH_WORKERS, loop=SHORT_EPOCHS),
    torch_evidence(loader=replace(SLOW_START, batches=None), loop=Loop("iterator", where=SITE)),
    torch_evidence(loader=SLOW_START, loop=SHORT_EPOCHS, real=None),
]

fires = [
    torch_evidence(loader=SLOW_START, loop=SHORT_EPOCHS),
    torch_evidence(
        loader=WITH_WORKERS,
        loop=SHORT_EPOCHS,
        between_epochs=BetweenEpochs(3.0, 2, 50, validation_s=1.0, restart_s=1.5),
    ),
]

tries_not = [
    torch_evidence(),
    torch_evidence(loader=replace(SLOW_START, persistent_workers=True), loop=SHORT_EPOCHS),
    torch_evidence(loader=WITH_WORKERS, loop=replace(SHORT_EPOCHS, epochs=1)),
    # a start that is timed, and short against an epoch
    torch_evidence(loader=replace(SLOW_START, worker_start_s=0.1), loop=SHORT_EPOCHS),
    # a long epoch
    torch_evidence(loader=WITH_WORKERS, loop=replace(SHORT_EPOCHS, epoch_steps=5000)),
    # how long an epoch is nobody knows
    torch_evidence(loader=WITH_WORKERS, loop=SHORT_EPOCHS, real=None),
]

tries = [
    torch_evidence(loader=WITH_WORKERS, loop=SHORT_EPOCHS),
]

examples = [
    Example(
        before="loader = ▸DataLoader(dataset, num_workers=4)◂\n",
        after="loader = DataLoader(dataset, num_workers=4, persistent_workers=True)\n",
    ),
    Example(  # with 0 workers it may not be True
        before="loader = ▸DataLoader(dataset, num_workers=args.workers)◂\n",
        after=(
            "loader = DataLoader(dataset, num_workers=args.workers, "
            "persistent_workers=args.workers > 0)\n"
        ),
    ),
    Example(  # among settings that cannot be seen
        before="loader = ▸DataLoader(dataset, **how)◂\n",
        after='loader = DataLoader(dataset, **{**how, "persistent_workers": '
        'how.get("num_workers", 0) > 0})\n',
    ),
    Example.untouched("loader = ▸DataLoader(dataset, num_workers=4, persistent_workers=keep)◂\n"),
    Example.untouched("loader = ▸DataLoader(dataset, num_workers=count())◂\n"),
]
