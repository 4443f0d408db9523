"""A `/dev/shm` that cannot hold the batches of the workers."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import GIB, MIB
from trainperf.fixes.dataloader._loader import PREFETCH, places, shm_bytes
from trainperf.model import Equivalence, Evidence, Finding

SNIPPET = """\
# plain Docker: a larger /dev/shm, or that of the host
docker run --shm-size={size}g ...
docker run --ipc=host ...
# Kubernetes: a volume of emptyDir with medium Memory, mounted at /dev/shm"""


class SharedMemory(Fix):
    """Give the container more shared memory.

    ## Why it is slow
    Workers hand their batches over through files in `/dev/shm`. In a container it often
    has 64 MB. What does not fit ends a worker ("bus error"), or the loader must be run
    with fewer workers and shorter queues than the cores allow.

    ## What changes
    The container is started with `--shm-size` or `--ipc=host`. The script stays as it is.

    ## When not to
    When the container cannot be started otherwise: then fewer workers, a smaller
    `prefetch_factor`, or a `collate_fn` that leaves NumPy arrays as they are (these
    go through a pipe). `set_sharing_strategy("file_system")` needs `/dev/shm` as well.
    """

    framework = "torch"
    category = "environment"
    equivalence = Equivalence.ENVIRONMENT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a `/dev/shm` smaller than the batches that are, or would be, on their way."""
        loader, free = evidence.torch.loader, evidence.machine.shm_free
        if free is None or not (loader.workers or evidence.input_bound):
            return None
        workers, prefetch = max(1, loader.workers), loader.prefetch_factor or PREFETCH
        needed = shm_bytes(evidence, workers, prefetch)
        if needed <= free:
            return None
        total = evidence.machine.shm_total
        of = f" of {total / MIB:.0f}" if total else ""
        size = max(1, -(-4 * needed // GIB))
        many = f"{workers} worker{'s' if workers > 1 else ''}"
        have = "keep" if loader.workers > 1 else "keeps" if loader.workers else "would keep"
        return self.finding(
            title="/dev/shm cannot hold the workers' batches",
            text=f"Batches of {evidence.loop.batch_bytes or 0:,} bytes go through /dev/shm. "
            f"{many} with {prefetch} batches each {have} {needed / MIB:.0f} MiB there; "
            f"{free / MIB:.0f}{of} MiB are free.",
            bound=None,
            bound_basis="none: it decides how many workers are possible at all",
            where=places(loader),
            advice=f"Start the container with `--shm-size={size}g`, or with `--ipc=host`.",
            snippet=SNIPPET.replace("{size}", str(size)),
        )
