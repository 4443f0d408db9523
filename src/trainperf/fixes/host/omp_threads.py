"""A single process with one thread for its operations, or with far more than cores."""

from __future__ import annotations

import math

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import at_most, bound_if_saved
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.dataloader._loader import ranks
from trainperf.fixes.host.cpu_quota import OFTEN, throttled_share
from trainperf.model import Equivalence, Evidence, Finding, is_taken

VARIABLE = {"torch": "OMP_NUM_THREADS", "tensorflow": "TF_NUM_INTRAOP_THREADS"}
"""The variable for the threads of an operation. TensorFlow's own builds do not use OpenMP."""

LEAST_CORES = 4
"""Cores from which one thread leaves cores idle: of fewer, the data's making takes the rest."""

FAR_ABOVE = 1.5
"""Threads per core from which they take the cores from each other; our choice."""


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
