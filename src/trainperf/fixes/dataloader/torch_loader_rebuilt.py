"""A `DataLoader` that is built anew for every epoch, or every few steps."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.dataloader._loader import (
    LONG_EPOCH_S,
    built_each,
    epoch_s,
    epoch_steps,
    named,
    places,
    restart_s,
)
from trainperf.fixes.dataloader.edits.hoisting import build_before_loop
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding, Loader, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

FOR_EPOCHS = """\
loader = DataLoader(dataset, ..., persistent_workers=True)  # once, before the epochs
for epoch in range(epochs):
    for batch in loader:
        train_step(batch)"""

ONCE = "Build the loader before the loop, with `persistent_workers=True` if it has workers."

FOR_STEPS = """\
batches = iter(loader)  # once, not for every step
for step in range(steps):
    try:
        batch = next(batches)
    except StopIteration:
        batches = iter(loader)
        batch = next(batches)
    train_step(batch)"""


class LoaderRebuilt(Fix):
    """Build the `DataLoader` once, before the loop.

    ## Why it is slow
    A new `DataLoader` starts new workers: processes are forked or spawned, take the
    dataset over, and fill their queues, while the model waits. Built within the loop,
    it does so again and again, and `persistent_workers` cannot help.

    ## What changes
    The line moves out of the loop; the same loader is iterated again. With
    `persistent_workers=True` its workers stay. Shuffling draws its numbers in another
    order then.

    ## When not to
    When each epoch really reads another dataset, sampler or batch size: then change the
    sampler (`sampler.set_epoch`), not the loader. No edit is written where anything that it is
    built from changes within the loop, nor for one that is built every few steps.
    """

    framework = "torch"
    category = "input"
    concerns = "epoch end"
    counted = True
    equivalence = Equivalence.NUMERICS
    between_epochs = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a place where loaders are built over and over, and what their starts take."""
        loader = evidence.torch.loader
        each = built_each(loader, evidence.between_epochs)
        if not each:
            return None
        if each == "epoch":
            return self._for_epochs(evidence, loader)
        return self._for_steps(evidence, loader)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it where the start of its workers was not timed, or may be a matter of noise."""
        loader, kind = evidence.torch.loader, evidence.favourable()
        if built_each(loader, evidence.between_epochs) != "epoch" or loader.workers == 0:
            return None
        steps = epoch_steps(evidence, loader)
        pause = evidence.between_epochs
        between = pause.seconds if pause is not None and pause.sure else 0.0
        whole, bound = steps * evidence.times.real + between, None
        try:
            restart = restart_s(kind, loader)
            whole = epoch_s(kind, steps, restart)
            bound = whole / (whole - restart)
            if not worth(kind, bound):
                return None
        except NotMeasured:
            if whole > LONG_EPOCH_S:
                return None
        return self.finding(
            title="A new DataLoader is built for each epoch",
            text=f"{_built(loader)}, one for each epoch of {steps} steps.",
            bound=bound,
            bound_basis=UNTRIED if bound is None else "the start of the loader against an epoch",
            where=places(loader),
            advice=ONCE,
            snippet=FOR_EPOCHS,
            data=_data(evidence, {"steps": steps, "seconds": whole, "pause_s": between}),
        )

    def _for_epochs(self, evidence: Evidence, loader: Loader) -> Finding | None:
        steps, restart = epoch_steps(evidence, loader), restart_s(evidence, loader)
        whole = epoch_s(evidence, steps, restart)
        bound = whole / (whole - restart)
        if not worth(evidence, bound):
            return None
        besides = max(0.0, whole - steps * evidence.times.real - restart)
        return self.finding(
            title="A new DataLoader is built for each epoch",
            text=f"{_built(loader)}. Each start takes {ms(restart)}, {percent(restart / whole)} "
            f"of an epoch of {steps} steps.",
            bound=bound,
            bound_basis="the start of the loader against the length of an epoch",
            where=places(loader),
            advice=ONCE,
            snippet=FOR_EPOCHS,
            data=_data(evidence, {"steps": steps, "seconds": whole, "pause_s": besides}),
        )

    def _for_steps(self, evidence: Evidence, loader: Loader) -> Finding | None:
        if not evidence.input_bound:
            return None
        restart = restart_s(evidence, loader)
        bound = evidence.bound_if_input_saves(restart)
        if not worth(evidence, bound):
            return None
        waits = evidence.times.real - evidence.times.resident
        return self.finding(
            title="A new DataLoader is built within the epoch, again and again",
            text=f"{_built(loader)}. Each start takes {ms(restart)}; a step waits {ms(waits)} for "
            "its batch.",
            bound=bound,
            bound_basis="no start of a loader in a step",
            where=places(loader),
            advice="Build the loader once, and keep one iterator over it.",
            snippet=FOR_STEPS,
            rewritable=False,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Build the loader ahead of the loop that builds it for each epoch."""
        loop = finding.data["loop"]
        where = None if loop is None else Site(**loop)
        build_before_loop(script, finding.where[0], where, finding.data["workers"])


def _data(evidence: Evidence, epoch: dict[str, float]) -> dict[str, Any]:
    """Return what the edit and its trial need."""
    loop = evidence.loop.where
    found = {
        "workers": evidence.torch.loader.workers,
        "loop": None if loop is None else asdict(loop),
    }
    return {"epoch": epoch, **found}


def _built(loader: Loader) -> str:
    workers = f" with {loader.workers} workers" if loader.workers else ""
    return f"{named(loader)} got {loader.built} loaders{workers} while it was watched"
