"""What a container or a machine does not give: CPU time beyond a quota, and memory."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced, priced_if_worth
from trainperf.fixes.common.step import gpu_may_be_full, threads_variable
from trainperf.fixes.common.words import GIB, percent, size
from trainperf.model import ContainerUse, Evidence

GPU_FULL = 0.90
"""Share of the time a kernel runs, above which the CPU is not what a GPU waits for."""

OFTEN = 0.05
"""Share of the quota's periods in which it must have been used up to matter; our choice."""


class CpuQuota(Fix):
    """Give the container more CPU time, or size threads and workers for what it has.

    Why slow: A quota (`--cpus`, a limit of Kubernetes) counts CPU time per period of 0.1 s, over
    all threads. When it is used up, every thread stands still until the next period. Pools are
    sized by the cores that can be seen, so they use it up early, and all wait.
    Changes: The container is started with a higher quota; or thread pools and loader workers are
    set to the quota, which takes the stops away but adds no CPU time.
    When not: Where the other cores are promised to other jobs: then only the sizes help.
    """

    concerns = "quota"
    counted = True

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a quota that was used up in many of its periods while the script trained."""
        use, machine = evidence.container, evidence.machine
        quota = None if use is None else use.quota_cores
        share = throttled_share(evidence)
        visible = min(machine.visible_cores, machine.affinity_cores)
        if quota is None or share < OFTEN or quota >= visible:
            return None
        if evidence.device.kind == "GPU" and gpu_may_be_full(evidence, GPU_FULL):
            return None
        whole = max(1, int(quota))
        return Cause(
            title=f"The container's CPU quota of {quota:g} core{'' if quota == 1 else 's'} stops "
            "the script",
            text=f"In {percent(share)} of the quota's periods it was used up before the period "
            f"ended. {visible} cores can be seen, and pools of threads are sized for them.",
            # Busy on all cores, a period's quota is gone after quota / visible of it.
            saves=Saving(
                f"no stops, as with all {visible} cores",
                lambda: evidence.times.real * share * (1 - quota / visible),
                of="all",
            ),
            advice=f"Start the container with more CPUs, or set threads and loader workers to "
            f"{whole}.",
            snippet=f"# as many cores as the work needs\ndocker run --cpus={visible} ...\n"
            f"# or threads for the cores there are\nexport {threads_variable(evidence)}={whole}",
        )


def throttled_share(evidence: Evidence) -> float:
    """The share of periods used up while it trained, else in the whole run.

    Raises `NotMeasured` where the kernel tells neither.
    """
    try:
        share = evidence.phase("real").throttled_share
    except NotMeasured:
        share = None
    if share is None and evidence.container is not None:
        share = evidence.container.throttled_share
    if share is None:
        raise NotMeasured("the kernel does not tell how often the quota was used up")
    return share


SWAPPING = 1e6
"""Bytes per second read back from swap that say that memory runs short; our choice."""

PUT_AWAY = 0.1
"""Share of what comes back from swap that must be put away meanwhile; our choice."""

STALLING = 0.05
"""Share of the time in which a task waits for memory; our choice."""

NEAR = 0.95
"""Share of the limit that may be in use, page cache that can go left out; our choice."""


class MemoryPressure(Fix):
    """Keep less in memory: fewer workers, a smaller shuffle buffer or cache.

    Why slow: Near the limit of the container or the machine the kernel takes pages away that are
    needed again: it reads files anew, and swaps, and threads wait. At the limit it ends a process.
    Changes: Fewer or smaller things are held: loader workers (each has its copy), `prefetch`,
    `cache()`, `shuffle` buffers, of which a smaller one mixes samples less.
    When not: Where the container can simply have more memory (`--memory`).
    """

    category = "memory"
    without_edit = "what may be given up (workers, a buffer, a cache) is a choice"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find kills, swapping, waiting for memory, or use near the limit."""
        use = evidence.container
        signs = [] if use is None else _signs(use)
        if use is None or not signs:
            return None
        saves: Saving | Unpriced = Unpriced("not measured: how long a step waits for memory")
        if (share := use.memory_pressure or 0.0) >= STALLING:
            waits = Saving("no waiting for memory", lambda: evidence.times.real * share, of="all")
            saves = priced_if_worth(waits, evidence, saves.basis)
        # twice the limit in whole GiB; what to fill in where there is none
        more = -(-2 * use.memory_limit // GIB) if use.memory_limit else 16
        return Cause(
            title="Memory runs short",
            text=" ".join(signs),
            saves=saves,
            snippet=f"docker run --memory={more}g ...",
        )


def _signs(use: ContainerUse) -> list[str]:
    """Say as sentences what the run suffered for want of memory."""
    signs = []
    if kills := dict(use.memory_events).get("oom_kill", 0):
        signs.append(f"Processes that the kernel ended for want of memory: {kills}.")
    stalls, back = use.memory_pressure or 0.0, use.swapped_in or 0
    rate = back / max(use.seconds, 1e-9)
    # Pages may come back that were put away long before: short now is who also puts some away.
    out = use.swapped_out is None or use.swapped_out >= PUT_AWAY * back
    if rate >= SWAPPING and (out or stalls >= STALLING):
        signs.append(f"The machine read {size(rate)}/s back from swap while it ran.")
    if stalls >= STALLING:
        of = use.pressure_of or "machine"
        signs.append(f"In {percent(stalls)} of the time a task of the {of} waited for memory.")
    peak, limit = use.memory_peak or 0, use.memory_limit or 0
    if limit and peak >= NEAR * limit:
        signs.append(f"The container used {size(peak)} of {size(limit)}, without page cache.")
    return signs
