"""The limits that control groups set this process: CPU time and memory.

The smallest limit on any level above the process counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainperf.samplers.levels import levels


@dataclass(frozen=True)
class MemoryLimit:
    """The smallest memory limit, and what is left below the limits; bytes.

    Page cache that the kernel would drop first counts as left.
    """

    limit: int
    available: int


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the CPU quota in cores, or None where there is no quota."""
    return min(
        (quota for level in levels(root, "cpu") if (quota := level.quota) is not None),
        default=None,
    )


def memory_limit(root: Path = Path("/")) -> MemoryLimit | None:
    """Return the memory limit and what is left, or None where there is no limit."""
    limits = [
        (limit, level.memory_used or 0)
        for level in levels(root, "memory")
        if (limit := level.memory_limit) is not None
    ]
    if not limits:
        return None
    return MemoryLimit(
        limit=min(limit for limit, _ in limits),
        available=min(max(0, limit - used) for limit, used in limits),
    )
