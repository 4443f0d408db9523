"""A CPU quota of the container that the run uses up."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import gpu_may_be_full
from trainperf.fixes.common.words import GIB, percent, worth_counted
from trainperf.model import ContainerUse, Equivalence, Evidence, Finding

GPU_FULL = 0.90
"""Share of the time a kernel runs, above which the CPU is not what a GPU waits for."""


MORE = {"kubernetes": "kubectl set resources deployment NAME --limits=cpu={visible}"}
"""How a kind of container gets more cores, where it is not by an argument of docker."""

THREADS = {"torch": "OMP_NUM_THREADS", "tensorflow": "TF_NUM_INTRAOP_THREADS"}


class CpuQuota(Fix):
    """Give the container more CPU time, or size threads and workers for what it has.

    ## Why it is slow
    A quota (`--cpus`, a limit of Kubernetes) counts CPU time per period of 0.1 s, over all
    threads. When it is used up, every thread stands still until the next period. Pools are
    sized by the cores that can be seen, so they use it up early, and all wait.

    ## What changes
    The container is started with a higher quota; or thread pools and loader workers are
    set to the quota, which takes the stops away but adds no CPU time.

    ## When not to
    Where the other cores are promised to other jobs: then only the sizes help.
    """

    framework = "any"
    category = "environment"
    concerns = "quota"
    equivalence = Equivalence.ENVIRONMENT
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a quota that was used up in many of its periods while the script trained."""
        use = evidence.container
        quota = None if use is None else use.quota_cores
        share = throttled_share(evidence)
        visible = min(evidence.machine.visible_cores, evidence.machine.affinity_cores)
        if use is None or quota is None or share < OFTEN or quota >= visible:
            return None
        if evidence.device.kind == "GPU" and gpu_may_be_full(evidence, GPU_FULL):
            return None
        # Busy on all cores, a period's quota is gone after quota / visible of it.
        bound = evidence.bound_if_step_saves(evidence.times.real * share * (1 - quota / visible))
        if not worth_counted(bound):
            return None
        still = "" if use.throttled_s is None else f" {_stood_still(use)}"
        return self.finding(
            title=f"The container's CPU quota of {quota:g} core{_s(quota)} stops the script",
            text=f"In {percent(share)} of the quota's periods{_when(evidence)} it was used up "
            f"before the period ended. {visible} cores can be seen, and "
            f"{_takes(evidence, visible)}.{still}",
            bound=bound,
            bound_basis=f"no stops, as with all {visible} cores",
            advice="Start the container with more CPUs, or set threads and loader workers to "
            f"{max(1, int(quota))}.",
            snippet=_snippet(evidence, visible, max(1, int(quota))),
        )


def _takes(evidence: Evidence, visible: int) -> str:
    """Return the number of cores that the framework goes by."""
    if evidence.torch_ is not None and (threads := evidence.torch_.flags.get("threads")):
        return f"PyTorch computes with {threads} thread{'' if threads == 1 else 's'}"
    given = evidence.facts.get("intra_op_threads")
    if evidence.framework.name == "tensorflow" and isinstance(given, str) and given.isdigit():
        return f"TensorFlow's operations have {given} threads"
    return f"pools are sized for {visible} unless they are told otherwise"


def _when(evidence: Evidence) -> str:
    """Say that the share is of the training, where it is: the report also gives the whole run's."""
    try:
        return "" if evidence.phase("real").throttled_share is None else " while it trained"
    except NotMeasured:
        return ""


def _s(many: float) -> str:
    return "" if many == 1 else "s"


def _snippet(evidence: Evidence, visible: int, threads: int) -> str:
    more = MORE.get(evidence.machine.container, "docker run --cpus={visible} ...")
    lines = ["# as many cores as the work needs", more.replace("{visible}", str(visible))]
    if variable := THREADS.get(evidence.framework.name):
        lines += ["# or threads for the cores that there are", f"export {variable}={threads}"]
    return "\n".join(lines)


def _stood_still(use: ContainerUse) -> str:
    return (
        f"In the {use.seconds:.0f} s of the run its threads stood still for "
        f"{use.throttled_s or 0.0:.1f} s, summed over cores."
    )


OFTEN = 0.05
"""Share of the quota's periods in which it must have been used up to matter; our choice."""

_SWAPPING = 1e6
"""Bytes per second read back from swap that say that memory runs short; our choice."""

_PUT_AWAY = 0.1
"""Share of what comes back from swap that must be put away meanwhile; our choice."""

STALLING = 0.05
"""Share of the time in which a task waits for memory; our choice."""

_NEAR = 0.95
"""Share of the limit that may be in use, page cache that can go left out; our choice."""


def throttled_share(evidence: Evidence) -> float:
    """The share of periods used up while it trained, else in the whole run.

    Raises `NotMeasured` where the kernel tells neither.
    """
    try:
        training = evidence.phase("real").throttled_share
    except NotMeasured:
        training = None
    whole = None if evidence.container is None else evidence.container.throttled_share
    share = whole if training is None else training
    if share is None:
        raise NotMeasured("the kernel does not tell how often the quota was used up")
    return share


def signs(use: ContainerUse) -> list[str]:
    """Say each sign that memory ran short, as sentences; empty without any."""
    return [*_killed(use), *_swapping(use), *_waiting(use), *_near(use)]


def suffered(use: ContainerUse) -> bool:
    """Whether the run suffered from it: kills, swapping, waiting, not mere use near the limit."""
    return bool([*_killed(use), *_swapping(use), *_waiting(use)])


def _killed(use: ContainerUse) -> list[str]:
    kills = dict(use.memory_events).get("oom_kill", 0)
    if not kills:
        return []
    return [f"The kernel ended {kills} process{'es' if kills > 1 else ''} for want of memory."]


def _swapping(use: ContainerUse) -> list[str]:
    if not use.swapped_in or use.swapped_in / max(use.seconds, 1e-9) < _SWAPPING:
        return []
    # Pages may come back that were put away long before: short now is who also puts some away.
    out = use.swapped_out is None or use.swapped_out >= _PUT_AWAY * use.swapped_in
    if not out and not (use.memory_pressure or 0.0) >= STALLING:
        return []
    rate = use.swapped_in / max(use.seconds, 1e-9) / 1e6
    return [f"The machine read {rate:.1f} MB/s back from swap while the script ran."]


def _waiting(use: ContainerUse) -> list[str]:
    if use.memory_pressure is None or use.memory_pressure < STALLING:
        return []
    whose = "the container" if use.pressure_of == "container" else "the machine"
    return [f"In {percent(use.memory_pressure)} of the time a task of {whose} waited for memory."]


def _near(use: ContainerUse) -> list[str]:
    if not use.memory_limit or not use.memory_peak or use.memory_peak < _NEAR * use.memory_limit:
        return []
    used = f"{use.memory_peak / GIB:.1f} of {use.memory_limit / GIB:.1f} GiB"
    return [f"The container used {used}, page cache that can go left out."]
