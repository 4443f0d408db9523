"""How often a container's CPU quota was used up, for the fixes and verdicts that ask."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import GIB, percent
from trainperf.model import ContainerUse, Evidence

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
