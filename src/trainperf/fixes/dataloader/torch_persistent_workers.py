"""Worker processes that are started anew for every epoch."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, percent
from trainperf.fixes.dataloader._edits import seen_in_run, set_setting
from trainperf.fixes.dataloader._loader import (
    Starts,
    built_each,
    named,
    places,
    starts_of,
    starts_to_try,
)
from trainperf.model import Equivalence, Evidence, Finding
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
        starts = starts_of(evidence, loader) if _start_anew(evidence) else None
        if starts is None:
            return None
        how = f" ({loader.start_method})" if loader.start_method else ""
        return self._finding(
            evidence,
            starts,
            f"{percent(starts.restart / starts.seconds)} of each epoch goes into starting workers",
            f"{how} that are started for every epoch of {starts.steps} steps: "
            f"{ms(starts.restart)} of {ms(starts.seconds)}.",
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it where the workers' start was not timed, or may be a matter of noise."""
        loader = evidence.torch.loader
        starts = starts_to_try(evidence, loader) if _start_anew(evidence) else None
        if starts is None:
            return None
        text = f" that start for every epoch of {starts.steps} steps."
        return self._finding(evidence, starts, "The workers are started anew for every epoch", text)

    def _finding(self, evidence: Evidence, starts: Starts, title: str, text: str) -> Finding:
        loader = evidence.torch.loader
        many = f"{loader.workers} worker{'' if loader.workers == 1 else 's'}"
        return self.finding(
            title=title,
            text=f"{named(loader)} is read by {many}{text}",
            bound=starts.bound,
            bound_basis=starts.basis,
            where=places(loader),
            advice="Give the loader `persistent_workers=True`.",
            snippet=f"loader = DataLoader(dataset, ..., num_workers={loader.workers}, "
            "persistent_workers=True)",
            data={"epoch": starts.epoch, **seen_in_run(evidence)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Add `persistent_workers=True`, where there are workers."""
        site, data = finding.where[0], finding.data
        set_setting(script, site, "persistent_workers", "True", data, without_workers="False")


def _start_anew(evidence: Evidence) -> bool:
    """Whether workers end with each epoch of several, of one loader."""
    loader = evidence.torch.loader
    if loader.workers == 0 or loader.persistent_workers or evidence.loop.epochs == 1:
        return False
    return not built_each(loader, evidence.between_epochs)
