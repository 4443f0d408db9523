"""Other processes that compute on the GPU of the run."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import percent, worth
from trainperf.fixes.gpu._health import card, on_used
from trainperf.model import Equivalence, Evidence, Finding, is_taken

LEAST_BUSY = 0.05
"""Share of the time from which others keep a GPU busy; below, they only hold memory."""


SNIPPET = """\
nvidia-smi -i {index} --query-compute-apps=pid,process_name,used_memory --format=csv
# another GPU, if there is one
export CUDA_VISIBLE_DEVICES=1"""


class SharedGpu(Fix):
    """Leave the GPU to this run alone.

    ## Why it is slow
    Another process computes on the same GPU. The two take turns, and each waits for the
    other's kernels.

    ## What changes
    The other process is ended, or one of the two goes to another GPU
    (`CUDA_VISIBLE_DEVICES`). The script stays as it is.

    ## When not to
    Where the GPU is shared on purpose, and both jobs together are what counts.
    """

    framework = "any"
    category = "environment"
    equivalence = Equivalence.ENVIRONMENT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the GPU that others kept busiest before the run started."""
        parallel = evidence.parallel_
        if parallel is not None and len(parallel.processes) > 1:
            return None
        found = [
            (gpu.busy_before, gpu.other_processes, gpu)
            for gpu in on_used(evidence)
            if gpu.other_processes and gpu.busy_before and gpu.busy_before >= LEAST_BUSY
        ]
        if not found:
            return None
        busy, others, gpu = max(found, key=lambda one: one[0])
        # Kernels take turns: with n others this run gets one turn of n + 1 at least.
        lost = min(busy, others / (others + 1))
        times = evidence.times
        step = times.resident if is_taken(times.resident_) else times.real
        bound = bound_if_saved(evidence, step * lost)
        if not worth(evidence, bound):
            return None
        who = "Another process" if others == 1 else f"{others} other processes"
        return self.finding(
            title=f"{card(gpu)} is shared with other processes",
            text=f"{who} had it open before the run started, and kept it busy for "
            f"{percent(busy)} of the time.",
            bound=bound,
            bound_basis="as many turns on the GPU as the others took before the run",
            advice="End the other processes, or train on another GPU.",
            snippet=SNIPPET.replace("{index}", str(gpu.index)),
        )
