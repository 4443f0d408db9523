"""A single process with one thread for its operations, or with far more than cores."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.cases import GPU, evidence, machine
from trainperf.fixes.common.step import at_most, bound_if_saved
from trainperf.fixes.common.torch_cases import torch_evidence
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.dataloader._loader import ranks
from trainperf.fixes.host._quota import OFTEN, throttled_share
from trainperf.model import ContainerUse, Equivalence, Evidence, Finding, is_taken

VARIABLE = {"torch": "OMP_NUM_THREADS", "tensorflow": "TF_NUM_INTRAOP_THREADS"}
"""The variable for the threads of an operation. TensorFlow's own builds do not use OpenMP."""

LEAST_CORES = 4
"""Cores from which one thread leaves cores idle: of fewer, the data's making takes the rest."""

FAR_ABOVE = 1.5
"""Threads per core from which they take the cores from each other; our choice."""

QUOTA: dict[str, Any] = {"visible_cores": 16, "affinity_cores": 16, "quota_cores": 2.0}
"""Two cores on a machine of sixteen."""


def _torch(threads: int | None, variable: int | None, cores: float = 8, **more: Any) -> Evidence:
    flags = {"threads": threads, "omp_num_threads": variable}
    more.setdefault("machine", machine(cores=cores))
    return torch_evidence(flags=flags, **more)


def _in_container(given: str | None = None, **fields: Any) -> Evidence:
    """TensorFlow in a container of two cores on a machine of sixteen."""
    box = replace(machine(cores=2), **QUOTA)
    return evidence(machine=box, facts={"intra_op_threads": given}, **fields)


class OmpThreads(Fix):
    """Compute with a thread for each core that the process may use.

    ## Why it is slow
    On the CPU an operation is spread over a pool of threads. `OMP_NUM_THREADS=1`, which
    launchers and images set, leaves all cores but one idle. A pool sized by the cores of
    the machine, where a quota allows few of them, has its threads wait for each other.

    ## What changes
    A variable of the environment. Sums are added up in another order, so losses may
    differ by rounding.

    ## When not to
    - Where loader workers or other trainings need the cores.
    - A script that calls `torch.set_num_threads` itself must be changed there.
    """

    framework = "any"
    category = "environment"
    equivalence = Equivalence.ENVIRONMENT

    silent = [
        evidence(),
        torch_evidence(),
        # as many as there are cores, or nearly
        _torch(8, None),
        _torch(8, 8),
        _torch(4, 4),
        _torch(10, 10),
        _torch(3, 3, cores=2.5),
        # the script itself chose one thread
        _torch(1, None),
        _torch(1, 8),
        # the other core makes the data
        _torch(1, 1, cores=2),
        # the step runs on a GPU, or is not what costs
        _torch(1, 1, device=GPU),
        _torch(1, 1, resident=0.002, input=0.099),
        # each of several processes has its share
        _torch(1, 1, facts={"local_world_size": 8}),
        # not known
        _torch(None, None),
        _torch(1, 1, real=None),
        _in_container("2"),
        # a quota that is never used up
        _in_container(container=ContainerUse(20.0, quota_cores=2.0, throttled_share=0.01)),
        evidence(facts={"intra_op_threads": "8"}),
    ]
    fires = [
        _torch(1, 1),
        _torch(1, 1, cores=4),
        _torch(64, 64),
        _torch(16, None, cores=2),
        # a quota of half a core
        _torch(2, None, cores=0.5),
        _in_container(),
        _in_container("16"),
    ]

    tries_not = [
        evidence(),
        torch_evidence(),
        _torch(8, 8),
        # the script itself chose one thread
        _torch(1, None),
        _torch(1, 1, device=GPU),
        _torch(None, None),
        _torch(1, 1, facts={"local_world_size": 8}),
        _in_container("2"),
    ]
    tries = [
        _torch(10, 10),
        _torch(1, 1, real=None),
        _torch(1, 1, cores=2),
        _in_container(real=None),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a pool of one thread, or of far more than cores, in a single process."""
        if evidence.device.kind != "CPU" or ranks(evidence) > 1:
            return None
        have = evidence.machine.cores  # of a quota not always whole
        cores = max(1, math.floor(have))
        threads, by_variable = _threads(evidence)
        if threads is None:
            return None
        few = threads == 1 and by_variable and cores >= LEAST_CORES
        many = threads >= max(2, FAR_ABOVE * have)
        if not few and not many:
            return None
        # Threads that wait for a turn hold up all of a step, not only its operations.
        step = evidence.times.resident if few else evidence.times.real
        used = threads / cores if few else have / threads
        bound = (
            bound_if_saved(evidence, step * (1 - used))
            if few
            else _bound_of_many(evidence, 1 - used)
        )
        if not worth(evidence, bound):
            return None
        return self._finding(evidence, threads, bound, f" {_takes(evidence, few)}.")

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a thread for each core wherever a single process has fewer by a variable, or more."""
        if evidence.device.kind != "CPU" or ranks(evidence) > 1:
            return None
        have = evidence.machine.cores
        threads, by_variable = _threads(evidence)
        few = threads == 1 and by_variable and have >= 2
        if threads is None or not (few or threads > max(1.0, have)):
            return None
        most = at_most(evidence, have if few else None)
        return self._finding(evidence, threads, most, "")

    def _finding(
        self, evidence: Evidence, threads: int, bound: float | None, takes: str
    ) -> Finding:
        have = evidence.machine.cores
        cores = max(1, math.floor(have))
        few = threads < have
        variable = VARIABLE.get(evidence.framework.name, "OMP_NUM_THREADS")
        each = "1 thread" if threads == 1 else f"{threads} threads"
        may = "1 core" if have == 1 else f"{have:g} cores"
        return self.finding(
            title=f"Operations run on one of {cores} cores"
            if few
            else f"{threads} threads share {may}",
            text=f"Operations have {each}, and the process may use {may}{_why(evidence)}.{takes}",
            bound=bound,
            bound_basis=f"operations spread over {cores} threads without loss"
            if few
            else "no core's time lost to threads that wait for their turn",
            advice=_advice(variable, cores),
            snippet=f"export {variable}={cores}",
            data={"variable": variable, "threads": cores},
        )

    def environment(self, finding: Finding) -> dict[str, str]:
        """Set as many threads as there are cores."""
        return {str(finding.data["variable"]): str(finding.data["threads"])}


def _threads(evidence: Evidence) -> tuple[int | None, bool]:
    """The threads of an operation, and whether a variable set them; None if not known."""
    if evidence.framework.name == "torch":
        flags = evidence.torch.flags
        threads, given = flags.get("threads"), flags.get("omp_num_threads")
        return (int(threads) if threads else None), given is not None and given == threads
    if evidence.framework.name != "tensorflow" or "intra_op_threads" not in evidence.facts:
        return None, False
    text = evidence.facts["intra_op_threads"]
    if isinstance(text, str) and text.strip().isdigit() and int(text) > 0:
        # One thread, and other numbers below the cores, are tf_intra_op_threads' matter.
        return int(text), False
    return evidence.machine.affinity_cores, False  # TensorFlow counts the mask, not the quota


def _bound_of_many(evidence: Evidence, lost: float) -> float:
    """Upper bound where threads wait for each other for a share `lost` of the time.

    Under a quota their waiting shows as its stops: without any, none waits.
    """
    if _by_quota(evidence):
        share = _stopped(evidence)
        lost *= share if share >= OFTEN else 0.0
    bound = evidence.bound_if_step_saves(evidence.times.real * lost)
    if is_taken(evidence.times.input_):
        bound = min(bound, evidence.times.real / max(evidence.times.input, 1e-9))
    return max(1.0, bound)


def _stopped(evidence: Evidence) -> float:
    try:
        return throttled_share(evidence)
    except NotMeasured:
        return 1.0  # nothing tells: as if always


def _by_quota(evidence: Evidence) -> bool:
    """Whether a quota makes the cores so few."""
    box = evidence.machine
    return box.quota_cores is not None and box.quota_cores < box.affinity_cores


def _why(evidence: Evidence) -> str:
    if not _by_quota(evidence):
        return ""
    return f" (the container's quota; {evidence.machine.affinity_cores} can be seen)"


def _takes(evidence: Evidence, few: bool) -> str:
    if few:
        return f"The step computes for {ms(evidence.times.resident)}"
    return f"A step takes {ms(evidence.times.real)}"


def _advice(variable: str, cores: int) -> str:
    if variable == VARIABLE["torch"]:
        return (
            f"Set {variable} to {cores}. A call of torch.set_num_threads in the script counts more "
            "than the variable: change it there."
        )
    return f"Set {variable} to {cores}."
