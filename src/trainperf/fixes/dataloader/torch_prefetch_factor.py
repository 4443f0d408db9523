"""Workers that could keep up on average, but have too few batches ready."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import upper
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.dataloader._edits import seen_in_run, set_setting
from trainperf.fixes.dataloader._loader import (
    FITS,
    PREFETCH,
    cores_per_rank,
    fits_shm,
    named,
    places,
    waits_at_most,
)
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.rewrite import Script

OFFERED = (4, 8)
"""Values worth a trial: beyond 8 batches for each worker, memory grows and nothing else."""


class PrefetchFactor(Fix):
    """Let each worker have more batches ready.

    ## Why it is slow
    Each worker makes two batches ahead unless told otherwise. Where some samples take
    far longer than others (large images, slow reads), the queue runs empty now and then
    and the model waits, though the workers are quick enough on average.

    ## What changes
    `prefetch_factor` becomes 4 or 8: the queue outlasts longer gaps. Batches and their
    order stay the same.

    ## When not to
    - When memory or `/dev/shm` is short: workers × prefetch_factor batches lie there.
    - When the workers are too slow on average: a longer queue runs empty all the same.
    """

    framework = "torch"
    category = "input"
    ahead = True
    equivalence = Equivalence.EXACT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a loop that waits for workers that alone are faster than its step."""
        loader, times = evidence.torch.loader, evidence.times
        if loader.workers == 0 or not evidence.input_bound or times.input >= FITS * times.resident:
            return None
        if loader.workers >= cores_per_rank(evidence):  # they rather fight for cores
            return None
        now = loader.prefetch_factor or PREFETCH
        offered = [n for n in OFFERED if n > now and fits_shm(evidence, loader.workers, n)]
        bound = times.real / max(times.resident, 1e-9)
        if not offered or not worth(evidence, bound):
            return None
        text = (
            f"{named(loader)} is read by {loader.workers} workers that alone deliver a batch "
            f"every {ms(times.input)}, less than the {ms(times.resident)} of a step; still "
            f"each step waits {ms(times.real - times.resident)}. Each worker makes {now} "
            "batches ahead."
        )
        basis = upper(evidence, "no step waits for its batch")
        title = "The workers have too few batches ready"
        return self._finding(evidence, title, text, bound, basis, offered)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try longer queues unless the loop surely does not wait."""
        loader = evidence.torch.loader
        now = loader.prefetch_factor or PREFETCH
        offered = [n for n in OFFERED if n > now and fits_shm(evidence, loader.workers, n)]
        if loader.workers == 0 or not offered:
            return None
        bound = waits_at_most(evidence)
        text = (
            f"{named(loader)} is read by {loader.workers} "
            f"worker{'' if loader.workers == 1 else 's'}, each with {now} batches ahead."
        )
        basis = UNTRIED if bound is None else "no step waits for its batch"
        title = f"Each worker has {now} batches ready"
        return self._finding(evidence, title, text, bound, basis, offered)

    def _finding(
        self,
        evidence: Evidence,
        title: str,
        text: str,
        bound: float | None,
        basis: str,
        offered: list[int],
    ) -> Finding:
        loader = evidence.torch.loader
        return self.finding(
            title=title,
            text=text,
            bound=bound,
            bound_basis=basis,
            where=places(loader),
            advice=f"Let each worker make {offered[0]} batches ahead.",
            snippet=f"loader = DataLoader(dataset, ..., num_workers={loader.workers}, "
            f"prefetch_factor={offered[0]})",
            data={
                "prefetch_factor": offered[0],
                "variants": [{"prefetch_factor": n} for n in offered],
                **seen_in_run(evidence),
            },
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set `prefetch_factor`, where there are workers."""
        factor = str(finding.data["prefetch_factor"])
        site, data = finding.where[0], finding.data
        set_setting(script, site, "prefetch_factor", factor, data, without_workers="None")
