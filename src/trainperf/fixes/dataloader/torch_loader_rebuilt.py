"""A `DataLoader` that is built anew for every epoch, or every few steps."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.dataloader._loader import (
    Starts,
    built_each,
    named,
    places,
    restart_s,
    starts_of,
    starts_to_try,
)
from trainperf.fixes.dataloader.edits.hoisting import build_before_loop
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
        if each == "step":
            return self._for_steps(evidence, loader)
        starts = starts_of(evidence, loader) if each else None
        if starts is None:
            return None
        text = f". Each start takes {ms(starts.restart)}, "
        text += f"{percent(starts.restart / starts.seconds)} of an epoch of {starts.steps} steps."
        return self._for_epochs(evidence, starts, text)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it where the start of its workers was not timed, or may be a matter of noise."""
        loader = evidence.torch.loader
        if built_each(loader, evidence.between_epochs) != "epoch" or loader.workers == 0:
            return None
        starts = starts_to_try(evidence, loader)
        if starts is None:
            return None
        return self._for_epochs(evidence, starts, f", one for each epoch of {starts.steps} steps.")

    def _for_epochs(self, evidence: Evidence, starts: Starts, text: str) -> Finding:
        loader, loop = evidence.torch.loader, evidence.loop.where
        return self.finding(
            title="A new DataLoader is built for each epoch",
            text=_built(loader) + text,
            bound=starts.bound,
            bound_basis=starts.basis,
            where=places(loader),
            advice=ONCE,
            snippet=FOR_EPOCHS,
            data={
                "epoch": starts.epoch,
                "workers": loader.workers,
                "loop": None if loop is None else asdict(loop),
            },
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


def _built(loader: Loader) -> str:
    workers = f" with {loader.workers} workers" if loader.workers else ""
    return f"{named(loader)} got {loader.built} loaders{workers} while it was watched"
