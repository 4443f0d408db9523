"""Memory that runs short: swapping, stalls, processes that the kernel ends."""

from __future__ import annotations

from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes._cases import GIB, evidence, stage
from trainperf.fixes._words import percent, worth
from trainperf.model import ContainerUse, Equivalence, Evidence, Finding, Missing, Site

SWAPPING = 1e6
"""Bytes per second read back from swap that say that memory runs short; our choice."""

STALLING = 0.05
"""Share of the time in which a task waits for memory; our choice."""

NEAR = 0.95
"""Share of the limit that may be in use, page cache that can go left out; our choice."""

HOLDERS = {"Cache": "cache()", "Shuffle": "shuffle()"}
"""Stages that hold much memory, by the start of their names."""


def _short(**use: Any) -> ContainerUse:
    """Twenty seconds in a container of 8 GiB."""
    usual: dict[str, Any] = {
        "memory_limit": 8 * GIB,
        "memory_peak": 4 * GIB,
        "memory_pressure": 0.0,
        "memory_events": (("max", 0), ("oom_kill", 0)),
        "swapped_in": 0,
        "swapped_out": 0,
        "pressure_of": "container",
    }
    return ContainerUse(20.0, **(usual | use))


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

    silent = [
        evidence(),
        evidence(container=ContainerUse(20.0)),
        evidence(container=_short()),
        # the limit was hit by page cache alone, which can go
        evidence(container=_short(memory_events=(("max", 500), ("oom_kill", 0)))),
        # a little
        evidence(container=_short(memory_pressure=0.01, swapped_in=5_000_000)),
        evidence(container=_short(memory_peak=7 * GIB)),
        # pages were written to swap, and never needed again
        evidence(container=_short(swapped_out=10 * GIB)),
    ]
    fires = [
        evidence(container=_short(memory_pressure=0.3)),
        evidence(container=_short(swapped_in=2 * GIB), stages_=Missing("not timed")),
        evidence(container=_short(memory_events=(("max", 9), ("oom", 1), ("oom_kill", 1)))),
        evidence(
            container=_short(memory_peak=int(7.9 * GIB)), stages_=(stage("ShuffleDatasetV3"),)
        ),
        evidence(container=_short(memory_limit=None, memory_peak=None, swapped_in=GIB)),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find kills, swapping, waiting for memory, or use near the limit."""
        use = evidence.container
        seen = [] if use is None else [*_killed(use), *_swapping(use), *_waiting(use), *_near(use)]
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


def _killed(use: ContainerUse) -> list[str]:
    kills = dict(use.memory_events).get("oom_kill", 0)
    if not kills:
        return []
    return [f"The kernel ended {kills} process{'es' if kills > 1 else ''} for want of memory."]


def _swapping(use: ContainerUse) -> list[str]:
    if not use.swapped_in or use.swapped_in / max(use.seconds, 1e-9) < SWAPPING:
        return []
    rate = use.swapped_in / max(use.seconds, 1e-9) / 1e6
    return [f"The machine read {rate:.1f} MB/s back from swap while the script ran."]


def _waiting(use: ContainerUse) -> list[str]:
    if use.memory_pressure is None or use.memory_pressure < STALLING:
        return []
    whose = "the container" if use.pressure_of == "container" else "the machine"
    return [f"In {percent(use.memory_pressure)} of the time a task of {whose} waited for memory."]


def _near(use: ContainerUse) -> list[str]:
    if not use.memory_limit or not use.memory_peak or use.memory_peak < NEAR * use.memory_limit:
        return []
    used = f"{use.memory_peak / GIB:.1f} of {use.memory_limit / GIB:.1f} GiB"
    return [f"The container used {used}, page cache that can go left out."]


def _holders(evidence: Evidence) -> tuple[str, tuple[Site, ...]]:
    """What holds memory in the input, in words, and where it stands."""
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
