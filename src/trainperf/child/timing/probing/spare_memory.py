"""How much memory a measurement may take without bringing the user's process down."""

from __future__ import annotations

import resource

CGROUP = "/sys/fs/cgroup"


def available() -> int | None:
    """Bytes that can be allocated before the machine or the container runs out.

    The lower of `MemAvailable` and what the control group has left (its file cache
    counted as free); None where neither can be read.
    """
    found = [free for free in (_machine(), _container()) if free is not None]
    return min(found) if found else None


def doubles(processes: int = 1) -> bool:
    """Whether there is as much again as this process took at most: twice the samples fit then.

    So it must be for each of the `processes` that take it at the same time.
    """
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    left = available()
    return left is None or most * processes <= left


def _machine() -> int | None:
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _container(folder: str = CGROUP) -> int | None:
    try:
        with open(f"{folder}/memory.max") as most, open(f"{folder}/memory.current") as used:
            left = int(most.read()) - int(used.read())
        with open(f"{folder}/memory.stat") as lines:
            stat = dict(line.split() for line in lines)
        return left + int(stat.get("inactive_file", 0))
    except (OSError, ValueError):  # no limit reads "max"
        return None
