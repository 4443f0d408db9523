"""An AWS instance with too little memory for the job."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import GIB, worth
from trainperf.fixes.host._instance_types import WHOLE, change_said, here, price_said, same_gpus
from trainperf.fixes.host.cpu_quota import STALLING, signs, suffered
from trainperf.model import ContainerUse, Equivalence, Evidence, Finding

NEAR = 0.80
"""Share of the instance's memory that the peak must reach: the system itself takes a part."""

ROOM = 1.25
"""How many times the peak the other type's memory must be: what was cut off would have grown."""


class InstanceWithMoreMemory(Fix):
    """Take an instance with more memory for the same GPU.

    ## Why it is slow
    Near the end of its memory the kernel takes pages away that are needed again, swaps,
    and at last ends a process. AWS sells one GPU with 16 to 256 GiB.

    ## What changes
    The same script runs on a larger instance with the same GPU. What it needs is at least
    the peak that was measured, which the memory there may have cut off.

    ## When not to
    - First hold less: fewer loader workers, a smaller shuffle buffer or cache.
    - In a container that may use only a part of the memory, lift that limit first.
    """

    category = "memory"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a job that suffers from a shortage of the whole instance's memory."""
        use = evidence.container
        instance, own = here(evidence)
        if use is None or not suffered(use) or not use.memory_peak:
            return None
        machine = evidence.machine
        if machine.memory_limit < WHOLE * own.memory or use.memory_peak < NEAR * own.memory:
            return None
        more = [one for one in same_gpus(instance) if one.memory >= ROOM * use.memory_peak]
        if not more:
            return None
        better = more[0]
        bound = _bound(evidence, use)
        return self.finding(
            title=f"{instance.name} has too little memory for the job",
            text=f"{' '.join(signs(use))} The job used {use.memory_peak / GIB:.1f} GiB at most, "
            f"{instance.name} has {own.memory / GIB:.0f}; {better.name} has "
            f"{better.memory / GIB:.0f}.",
            bound=bound,
            bound_basis="no waiting for memory"
            if bound is not None
            else "not measured: how long a step waits for memory",
            advice="First hold less in memory: fewer loader workers, smaller buffers and caches. "
            f"Then take {better.name}, {price_said(evidence, better.name)}.",
            snippet=change_said(instance, better.name),
        )


def _bound(evidence: Evidence, use: ContainerUse) -> float | None:
    if use.memory_pressure is None or use.memory_pressure < STALLING:
        return None
    bound = evidence.bound_if_step_saves(evidence.times.real * use.memory_pressure)
    return bound if worth(evidence, bound) else None
