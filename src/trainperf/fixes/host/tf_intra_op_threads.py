"""Fewer threads for TensorFlow's operations than the machine has cores."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import at_most, bound_if_saved, step_can_matter
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.dataloader._loader import ranks
from trainperf.model import Equivalence, Evidence, Finding

VARIABLE = "TF_NUM_INTRAOP_THREADS"


class IntraOpThreads(Fix):
    """Let TensorFlow's operations use all cores.

    ## Why it is slow
    On the CPU TensorFlow spreads a large operation over the threads of one pool. The
    variable `TF_NUM_INTRAOP_THREADS` makes that pool smaller than the cores the process
    may use, so cores stand idle while one step computes.

    ## What changes
    A variable of the environment: the pool gets a thread for each core. Sums are added
    up in another order, so losses may differ by rounding.

    ## When not to
    When the limit is there on purpose, as several trainings share the machine.
    """

    category = "environment"
    equivalence = Equivalence.ENVIRONMENT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a pool of fewer threads than cores, set by the environment."""
        threads, cores = _limit(evidence)
        if not threads:
            return None
        saved = evidence.times.resident * (1 - threads / cores)
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        takes = f"; the step computes for {ms(evidence.times.resident)}"
        return self._finding(threads, cores, takes, bound)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try all cores wherever the environment allows fewer."""
        threads, cores = _limit(evidence)
        if not threads or not step_can_matter(evidence):
            return None
        return self._finding(threads, cores, "", at_most(evidence, cores / threads))

    def _finding(self, threads: int, cores: int, takes: str, bound: float | None) -> Finding:
        return self.finding(
            title=f"{VARIABLE}={threads} leaves cores idle",
            text=f"TensorFlow's operations may use {threads} of {cores} cores{takes}.",
            bound=bound,
            bound_basis=f"operations spread over {cores} threads without loss",
            advice=f"Unset {VARIABLE}, or set it to the number of cores.",
            snippet=f"export {VARIABLE}={cores}",
            data={"cores": cores},
        )

    def environment(self, finding: Finding) -> dict[str, str]:
        """Set as many threads as there are cores."""
        return {VARIABLE: str(finding.data["cores"])}


def _limit(evidence: Evidence) -> tuple[int, int]:
    """The threads that the environment allows, 0 if that is no limit, and the cores there are."""
    given = evidence.facts.get("intra_op_threads")
    threads = int(given) if isinstance(given, str) and given.strip().isdigit() else 0
    cores = int(evidence.machine.cores) // ranks(evidence)
    limits = threads < cores and evidence.device.kind == "CPU"
    return (threads if limits else 0), cores
