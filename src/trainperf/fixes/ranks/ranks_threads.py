"""Ranks of one host that take each other's cores, or leave most of them idle."""

from __future__ import annotations

from collections import Counter

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.ranks._exchange import step_without_exchange
from trainperf.model import Equivalence, Evidence, Finding, Rank, is_taken

VARIABLE = {"torch": "OMP_NUM_THREADS", "tensorflow": "TF_NUM_INTRAOP_THREADS"}
"""The variable for the threads of an operation. TensorFlow's own builds do not use OpenMP."""


class RanksThreads(Fix):
    """Give each rank as many threads as it has cores to itself.

    ## Why it is slow
    Each rank starts a pool of threads. `torchrun` sets one thread per rank unless
    `OMP_NUM_THREADS` says otherwise, and cores stay idle; other launchers leave each
    rank as many threads as the machine has cores, and the ranks take them from
    each other.

    ## What changes
    A variable of the environment: cores over ranks. Sums are added up in another order,
    so losses may differ by rounding.

    ## When not to
    - When worker processes of the loader need the cores.
    - A script that calls `torch.set_num_threads` itself must be changed there.
    """

    category = "environment"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find ranks that compute on the CPU with other threads than their share of cores."""
        if evidence.device.kind != "CPU":
            return None
        host, together, cores = _lead(evidence)
        threads = min(one.threads or 0 for one in together)
        most = max(one.threads or 0 for one in together)
        wanted = max(1, cores // len(together))
        if len(together) < 2 or threads < 1:
            return None
        over = most * len(together) > cores and most > wanted
        if not over and most >= wanted:
            return None
        wasted = 1 - wanted / most if over else 1 - most / wanted
        bound = bound_if_saved(evidence, wasted * _computing(evidence))
        if not worth(evidence, bound):
            return None
        variable = VARIABLE.get(evidence.framework.name, "OMP_NUM_THREADS")
        each = "1 thread" if most == 1 else f"{most} threads"
        if threads != most:
            each = f"up to {each}"
        return self.finding(
            title=f"{len(together)} ranks with {each} each fight over {cores} cores"
            if over
            else f"{len(together)} ranks with {each} each leave cores idle",
            text=f"Each of {len(together)} ranks on {host} computes with {each}; {cores} cores "
            f"are there, {wanted} for each. Its own part of a step takes "
            f"{ms(_computing(evidence))} of {ms(evidence.times.real)}.",
            bound=bound,
            bound_basis="no core's time lost to threads that wait for their turn"
            if over
            else f"operations spread over {wanted} threads without loss",
            advice=_advice(variable),
            snippet=f"export {variable}={wanted}",
            data={"variable": variable, "threads": wanted},
        )

    def environment(self, finding: Finding) -> dict[str, str]:
        """Set the threads of each rank."""
        return {str(finding.data["variable"]): str(finding.data["threads"])}


def _advice(variable: str) -> str:
    """Say which variable to set, and which overrules it."""
    if variable == VARIABLE["torch"]:
        return (
            f"Set {variable} to the cores of each rank. A call of torch.set_num_threads in the "
            "script counts more than the variable: change it there."
        )
    return f"Set {variable} to the cores of each rank."


def _lead(evidence: Evidence) -> tuple[str, list[Rank], int]:
    """The host with most ranks, its ranks with known threads, and the cores they share.

    Raises `NotMeasured` where no rank's threads are known.
    """
    known = [one for one in evidence.parallel.processes if one.threads is not None]
    if not known:
        raise NotMeasured("how many threads the ranks have is not known")
    host = Counter(one.host for one in known).most_common(1)[0][0]
    together = [one for one in known if one.host == host]
    own = [set(one.cores) for one in together if one.cores is not None]
    cores = len(set().union(*own)) if len(own) == len(together) else int(evidence.machine.cores)
    if host == evidence.parallel.processes[0].host:  # the machine is that of the first rank
        cores = min(cores, max(1, int(evidence.machine.cores)))
    return host or "the host", together, cores


def _computing(evidence: Evidence) -> float:
    """Seconds of a step in which a rank computes: neither input nor exchange."""
    try:
        alone = step_without_exchange(evidence)
    except NotMeasured:
        alone = evidence.times.real
    if is_taken(evidence.times.resident_):
        alone = min(alone, evidence.times.resident)
    return min(alone, evidence.times.real)
