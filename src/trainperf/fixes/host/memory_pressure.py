"""Memory that runs short: swapping, stalls, processes that the kernel ends."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import GIB, worth
from trainperf.fixes.host.cpu_quota import STALLING, signs
from trainperf.model import ContainerUse, Equivalence, Evidence, Finding, Missing, Site

HOLDERS = {"Cache": "cache()", "Shuffle": "shuffle()"}
"""Stages that hold much memory, by the start of their names."""


class MemoryPressure(Fix):
    """Keep less in memory: fewer workers, a smaller shuffle buffer or cache.

    ## Why it is slow
    Near the limit of the container or the machine the kernel takes pages away that are
    needed again: it reads files anew, and swaps. Threads wait for it. At the limit it ends
    a process, often a loader's worker.

    ## What changes
    Fewer or smaller things are held: loader workers (each has its copy), `prefetch`,
    `shuffle` buffers, `cache()`. A smaller shuffle buffer mixes samples less.

    ## When not to
    Where the container can simply have more memory (`--memory`).
    """

    framework = "any"
    category = "memory"
    equivalence = Equivalence.ENVIRONMENT
    without_edit = "what may be given up (workers, a buffer, a cache) is a choice"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find kills, swapping, waiting for memory, or use near the limit."""
        use = evidence.container
        seen = [] if use is None else signs(use)
        if use is None or not seen:
            return None
        bound = None
        if use.memory_pressure is not None and use.memory_pressure >= STALLING:
            saved = evidence.times.real * use.memory_pressure
            bound = evidence.bound_if_step_saves(saved)
            if not worth(evidence, bound):
                bound = None
        holders, where = _holders(evidence)
        return self.finding(
            title="Memory runs short",
            text=" ".join(seen),
            bound=bound,
            bound_basis="no waiting for memory"
            if bound is not None
            else "not measured: how long a step waits for memory",
            where=where,
            advice=f"Hold less in memory: fewer loader workers, {holders}. Or give it more.",
            snippet="docker run --memory={limit}g ...".replace("{limit}", _more(use)),
        )


def _holders(evidence: Evidence) -> tuple[str, tuple[Site, ...]]:
    """Name the stage of the input that holds memory, and where it stands."""
    if isinstance(evidence.stages_, Missing):
        return "a smaller shuffle buffer or cache", ()
    named = [
        (words, one.where)
        for one in evidence.stages_
        for start, words in HOLDERS.items()
        if one.op.startswith(start)
    ]
    if not named:
        return "a smaller shuffle buffer or cache", ()
    what = " and ".join(dict.fromkeys(f"`{words}`" for words, _ in named))
    places = tuple(dict.fromkeys(where for _, where in named if where is not None))
    return f"a smaller {what}", places


def _more(use: ContainerUse) -> str:
    """Twice the limit in whole GiB; what to fill in where there is none."""
    return str(-(-2 * use.memory_limit // GIB)) if use.memory_limit else "16"
