"""How often a loader starts, and what that takes of an epoch."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.model import BetweenEpochs, Evidence, Loader


def epoch_steps(evidence: Evidence, loader: Loader) -> int:
    """Return the steps of an epoch; raises `NotMeasured` where nothing tells them."""
    pause = evidence.between_epochs
    steps = (pause.epoch_steps if pause else None) or evidence.loop.epoch_steps or loader.batches
    if not steps:
        raise NotMeasured("how many steps an epoch has is not known")
    return steps


def restart_s(evidence: Evidence, loader: Loader) -> float:
    """Return what starting the workers takes each time; raises `NotMeasured`.

    The smaller of what opening the loader took and of what passes between epochs until
    the first batch, where both are known: the first also holds what comes only once.
    """
    pause = evidence.between_epochs
    known = [loader.worker_start_s, pause.restart_s if pause else None]
    seconds = [each for each in known if each is not None]
    if not seconds:
        raise NotMeasured("no start of the workers was timed")
    return min(seconds)


def epoch_s(evidence: Evidence, steps: int, restart: float) -> float:
    """Return the seconds of an epoch with the pause after it; raises `NotMeasured`."""
    pause: BetweenEpochs | None = evidence.between_epochs
    between = pause.seconds if pause is not None and pause.sure else restart
    return steps * evidence.times.real + max(restart, between)


LONG_EPOCH_S = 60.0
"""Seconds of an epoch above which a start that was not timed is hardly worth a trial: workers
mostly start in a second or two."""

BUILT_EPOCHS = 3
"""Epochs seen, from which as many loaders of one place are one for each epoch; fewer may
be one each for training, validation and test."""

BUILT_OFTEN = 10
"""Loaders built at one place from which they are built within an epoch."""


def built_each(loader: Loader, pause: BetweenEpochs | None) -> str:
    """Say how often the loader is built anew: "epoch", "step" (or every few), "" if once."""
    epochs = pause.epochs_seen if pause is not None else 0
    if epochs >= BUILT_EPOCHS and loader.built >= epochs:
        return "epoch"
    if epochs < BUILT_EPOCHS and loader.built >= BUILT_OFTEN:
        return "step"
    return ""
