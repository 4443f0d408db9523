"""Cores: a quota that stops a script, and operations on one thread, fewer or more than cores."""

from __future__ import annotations

import math
from dataclasses import replace

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import waits
from trainperf.fixes.common.step import (
    bound_if_saved,
    gpu_may_be_full,
    step_seconds,
    threads_variable,
)
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import if_measured, measured_or, ms, percent, recorded_site
from trainperf.fixes.dataloader._loader import ranks
from trainperf.fixes.rows import Callee, SetArgument, SetVariable
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence, Site, Variant, is_taken
from trainperf.model.words import cores as cores_said
from trainperf.model.words import count

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
    share = measured_or(None, lambda: evidence.phase("real").throttled_share)
    if share is None and evidence.container is not None:
        share = evidence.container.throttled_share
    if share is None:
        raise NotMeasured("the kernel does not tell how often the quota was used up")
    return share


LEAST_CORES = 4
"""Cores from which one thread leaves cores idle: of fewer, the data's making takes the rest."""

FAR_ABOVE = 1.5
"""Threads per core from which they take the cores from each other; our choice."""

UNEXPLAINED = 0.25
"""Share of a step beyond its operations and its input alone that sharing cores leaves; ours."""


class OmpThreads(Fix):
    """Compute with a thread for each core that is there for operations.

    Why slow: On the CPU an operation is spread over a pool of threads. `OMP_NUM_THREADS=1`, which
    launchers and images set, leaves all cores but one idle, as `TF_NUM_INTRAOP_THREADS=1` does in
    TensorFlow. Of more threads than cores, or as many beside busy workers of a loader, some wait
    for a turn, and the others for them at the end of each operation.
    Changes: A variable of the environment. Sums are added up in another order: losses may differ
    by rounding.
    When not: Where other trainings need the cores.
    """

    edit = SetVariable({"{variable}": "{threads}"})

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a pool made too small by a variable, or too large, in a single process."""
        threads, by_variable = _threads(evidence)
        if evidence.device.kind != "CPU" or ranks(evidence) > 1 or threads is None:
            return None
        if _set_at(evidence) is not None:
            return None  # `torch_set_threads` tells of it: no variable counts then
        cores = max(1, math.floor(evidence.machine.cores))
        if by_variable and threads < cores:
            alone = is_taken(evidence.times.resident_)  # one that may wait is not all operations
            left = 1 - threads / cores
            cause: Cause | None = Cause(
                title=f"Operations run on {threads} of {cores} cores",
                text=_said(evidence, threads),
                saves=Saving(
                    f"operations spread over {cores} threads without loss",
                    ratio=lambda: bound_if_saved(evidence, step_seconds(evidence) * left),
                ),
                sure=alone and (cores >= LEAST_CORES or evidence.framework.name == "tensorflow"),
                data={"threads": cores},
            )
        else:
            cause = _crowded(evidence, threads)
        if cause is None:
            return None
        data = {"variable": threads_variable(evidence), **cause.data}
        setting = "{variable}={threads}".format_map(data)
        return replace(cause, advice=f"Set {setting}.", snippet=f"export {setting}", data=data)


class TorchSetThreads(Fix):
    """Give `torch.set_num_threads` no more threads than there are cores for operations.

    Why slow: Each operation on the CPU is cut into as many pieces as there are threads, and waits
    for the last of them. Of more threads than cores, or as many beside busy workers of a loader,
    some wait for a turn, each time.
    Changes: The number in the call. Sums are added up in another order: losses may differ by
    rounding.
    When not: Where the call is for another machine, with more cores.
    """

    category = "host"
    framework = "torch"
    equivalence = Equivalence.NUMERICS
    usual = 1.5
    edit = SetArgument("int", "{threads}", Callee("set_num_threads", positions={"int": 0}))

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a call that set more threads than have a core, in a single process."""
        where, threads = _set_at(evidence), evidence.torch.flags.get("threads")
        cause = _crowded(evidence, threads) if threads and ranks(evidence) == 1 else None
        if where is None or cause is None:
            return None
        fitting = cause.data["threads"]
        return replace(
            cause,
            where=(where,),
            advice=f"Call it with {fitting} or fewer, and with 1 in workers of a loader.",
            snippet=f"torch.set_num_threads({fitting})",
            data={**cause.data, **seen_in_call(evidence, int=threads)},
        )


def _crowded(evidence: Evidence, threads: int) -> Cause | None:
    """Threads that share cores, among them or with a loader's busy workers; None if they do not."""
    have, times, beside = evidence.machine.cores, evidence.times, ""
    cores, on_cpu = max(1, math.floor(have)), evidence.device.kind == "CPU"
    text, offered = _said(evidence, threads), [cores, max(1, cores // 2), 1]
    sure = on_cpu and threads >= max(2, FAR_ABOVE * have)
    saves = Saving(
        "no core's time lost to threads that wait for their turn",
        lambda: _lost_in_turns(evidence, have / threads),
        of="all",
        most=lambda: _lost_at_most(evidence),
    )
    if threads <= cores:
        workers = 0 if evidence.torch_ is None else evidence.torch.loader.workers
        drained = evidence.loop.opened_each is None and not waits(evidence)
        if not on_cpu or not workers or threads < max(2, cores) or not drained:
            return None
        beside = f" of operations and {count(workers, 'loader worker')}"
        text += f" Its operations alone take {ms(times.resident)}, its input {ms(times.input)}."
        offered = [max(1, cores - workers), 1]
        sure = times.resident + times.input < (1 - UNEXPLAINED) * times.real
        saves = Saving(
            "a step as long as the longer of its operations and its input, each alone",
            times.real - max(times.resident, times.input),
            of="all",
        )
    return Cause(
        title=f"{threads} threads{beside} share {cores_said(have)}",
        text=text,
        saves=saves,
        sure=sure,
        data={"threads": offered[0]},
        variants=tuple(Variant({"threads": number}) for number in dict.fromkeys(offered)),
    )


def _said(evidence: Evidence, threads: int) -> str:
    may = f"{cores_said(evidence.machine.cores)}{' of its quota' if _by_quota(evidence) else ''}"
    have = f"Operations have {count(threads, 'thread')}, and the process may use {may}."
    return have + if_measured(lambda: f" A step takes {ms(evidence.times.real)}.")


def _set_at(evidence: Evidence) -> Site | None:
    """Where the script set PyTorch's threads itself."""
    return recorded_site(evidence.torch_ and evidence.torch_.flags.get("threads_where"))


def _threads(evidence: Evidence) -> tuple[int | None, bool]:
    """The threads of an operation, and whether a variable set them; None if not known."""
    if evidence.framework.name == "torch":
        flags = evidence.torch.flags
        threads, given = flags.get("threads"), flags.get("omp_num_threads")
        return (int(threads) if threads else None), given is not None and given == threads
    if evidence.framework.name != "tensorflow" or "intra_op_threads" not in evidence.facts:
        return None, False
    given = evidence.facts["intra_op_threads"]
    threads = int(given) if isinstance(given, str) and given.strip().isdigit() else 0
    # without a number TensorFlow counts the mask, not the quota
    return threads or evidence.machine.affinity_cores, threads > 0


def _lost_in_turns(evidence: Evidence, used: float) -> float:
    """Seconds of a step, not of its operations only, lost to threads that wait for each other.

    `used` is the share of them that has a core. Under a quota their waiting shows as its stops:
    without any, none waits. A step is no shorter than its input.
    """
    share, times = 1.0, evidence.times
    if _by_quota(evidence):
        stopped = measured_or(1.0, lambda: throttled_share(evidence))  # as if always
        share = stopped if stopped >= OFTEN else 0.0
    most = times.real - times.input if is_taken(times.input_) else times.real
    return min(most, times.real * (1 - used) * share)


def _lost_at_most(evidence: Evidence) -> float:
    """The same where all of the operations' time is lost.

    Threads meet at the end of each operation, and one that waits there for another without a core
    takes its turn up, or sleeps and is woken: of small operations that is more than the work (8
    threads on 2 cores took 6.4 times as long as 2, not 4 times).
    """
    lost = _lost_in_turns(evidence, 0.0)
    return measured_or(
        lost, lambda: min(lost, part_seconds(evidence, "forward", "backward", "optimizer"))
    )


def _by_quota(evidence: Evidence) -> bool:
    """Whether a quota makes the cores so few."""
    box = evidence.machine
    return box.quota_cores is not None and box.quota_cores < box.affinity_cores
