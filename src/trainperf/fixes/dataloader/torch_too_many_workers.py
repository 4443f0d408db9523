"""A `DataLoader` with more worker processes than there are cores."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import upper
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.dataloader._edits import seen_in_run, set_setting
from trainperf.fixes.dataloader._loader import (
    WAITING,
    bound_with_workers,
    choices,
    cores_per_rank,
    cores_said,
    keeps_order,
    likeliest_first,
    named,
    places,
    predicted,
    waits_at_most,
)
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.rewrite import Script

IDLE = 1.2 * WAITING
"""Share of the cores in use while the loader is drained, below which its workers wait (for
a disk, a network) rather than fight for cores: then more of them than cores can be right.
A little above what `torch_workers` fills with workers that wait, so that its advice stands."""


class TooManyWorkers(Fix):
    """Start no more workers than there are cores.

    ## Why it is slow
    More workers than cores deliver nothing more: they take the cores from each other and
    from the training process, and each costs memory and time to start. In a container
    `os.cpu_count()` counts the cores of the host, not those that may be used.

    ## What changes
    `num_workers` becomes what the cores of each training process allow. Batches come in the
    same order. Random augmentation draws other numbers: each worker has its own seed.

    ## When not to
    When the workers mostly wait for a disk or a network: then more of them than cores
    can be right.
    """

    framework = "torch"
    category = "input"
    ahead = True
    equivalence = Equivalence.EXACT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find more workers than cores in a loop that loses time against a resident step."""
        loader, width = evidence.torch.loader, max(1, cores_per_rank(evidence))
        if loader.workers <= width or _workers_wait(evidence, loader.workers):
            return None
        offered = choices(evidence, 1, width)
        if not offered:
            return None
        bound = bound_with_workers(evidence, max(offered))
        if not worth(evidence, bound):
            return None
        workers = predicted(evidence, offered)
        lost = evidence.times.real - evidence.times.resident
        return self.finding(
            title=f"{loader.workers} workers share {width} core{'s' if width > 1 else ''}",
            text=f"{named(loader)} is read by {loader.workers} workers; {cores_said(evidence)}. "
            f"Each step waits {ms(lost)} longer than the {ms(evidence.times.resident)} it "
            "takes with its batch at hand.",
            bound=bound,
            bound_basis=upper(evidence, f"{_workers(max(offered))} that none disturbs"),
            where=places(loader),
            advice=f"Start {_workers(workers)}, not {loader.workers}.",
            snippet=f"loader = DataLoader(dataset, ..., num_workers={workers})",
            data={
                "workers": workers,
                "variants": [{"workers": n} for n in likeliest_first(workers, offered)],
                **seen_in_run(evidence),
            },
            equivalence=self.equivalence if keeps_order(loader) else Equivalence.NUMERICS,
            rewritable=False if loader.iterable and not loader.sharded else None,
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try fewer workers where there are more than cores, or as many and the loop waits."""
        loader, width = evidence.torch.loader, max(1, cores_per_rank(evidence))
        fewer = dict.fromkeys([width, max(1, width - 1), max(1, width // 2), 1])
        offered = [n for n in fewer if n < loader.workers]
        if loader.workers < width or not offered or (loader.iterable and not loader.sharded):
            return None
        bound = waits_at_most(evidence)
        return self.finding(
            title=f"{_workers(loader.workers)} share {width} core{'s' if width > 1 else ''}",
            text=f"{named(loader)} is read by {_workers(loader.workers)} beside the training; "
            f"{cores_said(evidence)}.",
            bound=bound,
            bound_basis=UNTRIED if bound is None else "no step waits for its batch",
            where=places(loader),
            advice=f"Start {_workers(offered[0])}, not {loader.workers}.",
            snippet=f"loader = DataLoader(dataset, ..., num_workers={offered[0]})",
            data={
                "workers": offered[0],
                "variants": [{"workers": n} for n in offered],
                **seen_in_run(evidence),
            },
            equivalence=self.equivalence if keeps_order(loader) else Equivalence.NUMERICS,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set `num_workers` where the loader is built, or the default that it has there."""
        workers = str(finding.data["workers"])
        set_setting(script, finding.where[0], "num_workers", workers, finding.data)


def _workers_wait(evidence: Evidence, workers: int) -> bool:
    """Say whether the cores stood idle while the loader was drained; False if unknown."""
    try:
        used = evidence.phase("input").cpu_cores
    except NotMeasured:
        return False
    return used is not None and used < IDLE * min(workers, evidence.machine.cores)


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"
