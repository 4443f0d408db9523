"""Worker processes that are started anew for every epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.dataloader._edits import seen_in_run, set_setting
from trainperf.fixes.dataloader._loader import (
    LONG_EPOCH_S,
    built_each,
    epoch_s,
    epoch_steps,
    named,
    places,
    restart_s,
)
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding

if TYPE_CHECKING:
    from trainperf.rewrite import Script


class PersistentWorkers(Fix):
    """Keep the worker processes from one epoch to the next.

    ## Why it is slow
    Without `persistent_workers` the loader ends its workers after each epoch and starts
    new ones for the next. They copy or unpickle the dataset, import what they need and
    fill their queues, while the model waits. With short epochs this adds up.

    ## What changes
    `persistent_workers=True` keeps them. From the second epoch on the loader draws one
    random number less, so shuffling and dropout take another order than before.

    ## When not to
    - When the dataset is changed between epochs (`dataset.epoch = 3`): workers that stay
      keep their old copy.
    - When memory is short: the workers keep theirs during validation, too.
    """

    framework = "torch"
    category = "input"
    concerns = "epoch end"
    equivalence = Equivalence.NUMERICS
    between_epochs = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find workers whose start takes a real share of every epoch."""
        loader = evidence.torch.loader
        if loader.workers == 0 or loader.persistent_workers or evidence.loop.epochs == 1:
            return None
        if built_each(loader, evidence.between_epochs):
            return None
        steps, restart = epoch_steps(evidence, loader), restart_s(evidence, loader)
        whole = epoch_s(evidence, steps, restart)
        bound = whole / (whole - restart)
        if not worth(evidence, bound):
            return None
        besides = max(0.0, whole - steps * evidence.times.real - restart)
        how = f" ({loader.start_method})" if loader.start_method else ""
        return self.finding(
            title=f"{percent(restart / whole)} of each epoch goes into starting workers",
            text=f"{named(loader)} is read by {loader.workers} workers{how} that are started for "
            f"every epoch of {steps} steps: {ms(restart)} of {ms(whole)}.",
            bound=bound,
            bound_basis="the start of the workers against the length of an epoch",
            where=places(loader),
            advice="Give the loader `persistent_workers=True`.",
            snippet=f"loader = DataLoader(dataset, ..., num_workers={loader.workers}, "
            "persistent_workers=True)",
            data={
                "epoch": {"steps": steps, "seconds": whole, "pause_s": besides},
                **seen_in_run(evidence),
            },
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it where the workers' start was not timed, or may be a matter of noise."""
        loader = evidence.torch.loader
        if loader.workers == 0 or loader.persistent_workers or evidence.loop.epochs == 1:
            return None
        pause = evidence.between_epochs
        if built_each(loader, pause):
            return None
        steps, kind = epoch_steps(evidence, loader), evidence.favourable()
        between = pause.seconds if pause is not None and pause.sure else 0.0
        whole, bound = steps * evidence.times.real + between, None
        try:
            restart = restart_s(kind, loader)
            whole = epoch_s(evidence, steps, restart)
            bound = whole / (whole - restart)
            if not worth(kind, bound):
                return None
        except NotMeasured:
            if whole > LONG_EPOCH_S:
                return None
        return self.finding(
            title="The workers are started anew for every epoch",
            text=f"{named(loader)} is read by {loader.workers} "
            f"worker{'' if loader.workers == 1 else 's'} that start for every epoch of {steps} "
            "steps.",
            bound=bound,
            bound_basis="the start of the workers against the length of an epoch"
            if bound is not None
            else UNTRIED,
            where=places(loader),
            advice="Give the loader `persistent_workers=True`.",
            snippet=f"loader = DataLoader(dataset, ..., num_workers={loader.workers}, "
            "persistent_workers=True)",
            data={
                "epoch": {"steps": steps, "seconds": whole, "pause_s": between},
                **seen_in_run(evidence),
            },
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Add `persistent_workers=True`, where there are workers."""
        site, data = finding.where[0], finding.data
        set_setting(script, site, "persistent_workers", "True", data, without_workers="False")
