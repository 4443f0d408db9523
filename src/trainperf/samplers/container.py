"""Counts of the control groups while a run is observed: throttling, stalls, memory, swap.

Sources: the kernel's "Control Group v2" (cpu.stat, memory.events, *.pressure), "CFS
Bandwidth Control" (cpu.stat of version 1) and "Pressure Stall Information".
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trainperf.recording.machine.machine import ContainerUse
from trainperf.samplers.levels import Level, counters, levels, text

ROOT = Path("/")

LOOK_S = 0.5
"""How often the memory is read: `memory.stat` makes the kernel add up over all cores."""


class Throttling(NamedTuple):
    """The counts of a CPU quota: seconds stood still, periods that used it up, all periods."""

    seconds: float
    throttled: int
    periods: int

    @property
    def share(self) -> float | None:
        """The share of periods in which the quota was used up; None without periods."""
        return self.throttled / self.periods if self.periods else None


class Quota:
    """The CPU quotas above this process; each level with one counts for itself.

    `cores` is the smallest quota, None without any.
    """

    def __init__(self, root: Path = ROOT) -> None:
        """Find the levels that have a quota."""
        quotas = [(quota, level) for level in levels(root, "cpu") if (quota := level.quota)]
        self.cores = min((quota for quota, _ in quotas), default=None)
        self._levels = [level for _, level in quotas]

    def read(self) -> tuple[Throttling | None, ...]:
        """Return the counters of each level; None for a level that does not say.

        Costs one small file per level that has a quota, and nothing without.
        """
        return tuple(_throttling(level) for level in self._levels)


def most_throttled(
    before: tuple[Throttling | None, ...], after: tuple[Throttling | None, ...]
) -> Throttling | None:
    """Return what the level that stood still longest counted between two readings."""
    passed = [
        Throttling._make(max(0, now - then) for now, then in zip(later, earlier, strict=True))
        for earlier, later in zip(before, after, strict=True)
        if earlier is not None and later is not None
    ]
    return max(passed, default=None)


class ContainerWatch:
    """Counts of the groups above this process from now on; a child's are the same.

    Call `look` now and then, for the highest memory, and `use` at the end. What cannot
    be read stays None. `root` is where `/proc` and `/sys` are read below.
    """

    def __init__(self, root: Path = ROOT, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the first readings."""
        self._root, self._clock = root, clock
        self._quota = Quota(root)
        self._memory = list(levels(root, "memory"))
        limits = {
            level: limit for level in self._memory if (limit := level.memory_limit) is not None
        }
        self._tightest = min(limits, key=limits.__getitem__, default=None)
        self._limit = None if self._tightest is None else limits[self._tightest]
        self._peak: int | None = None
        self._looked = float("-inf")
        self._started = clock()
        self._throttling = self._quota.read()
        self._kills = _kills(self._memory)
        self._stalls = self._stalled()
        self._swapped = _swapped(root)
        self.look()

    def look(self) -> None:
        """Note how much memory is used, at most every `LOOK_S`."""
        now = self._clock()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        used = None if self._tightest is None else self._tightest.memory_used
        if used is not None:
            self._peak = max(used, self._peak or 0)

    def use(self) -> ContainerUse:
        """Return what was counted since the start."""
        self._looked = float("-inf")
        self.look()
        seconds = max(0.0, self._clock() - self._started)
        passed = most_throttled(self._throttling, self._quota.read())
        before, after = self._swapped, _swapped(self._root)
        kills = _kills(self._memory)
        return ContainerUse(
            seconds=seconds,
            quota_cores=self._quota.cores,
            throttled_share=None if passed is None else passed.share,
            memory_limit=self._limit,
            memory_peak=self._peak,
            memory_pressure=self._pressure(seconds),
            memory_events=() if kills is None else (("oom_kill", kills - (self._kills or 0)),),
            swapped_in=None if before is None or after is None else max(0, after - before),
        )

    def _stalled(self) -> tuple[Path, int] | None:
        """The file that tells of stalls for memory, and its microseconds in all until now.

        A group's own file where the kernel keeps one; otherwise the whole machine's.
        """
        own = [level.folder / "memory.pressure" for level in self._memory if level.version == 2][:1]
        for path in (*own, self._root / "proc/pressure/memory"):
            if (total := _some(path)) is not None:
                return path, total
        return None

    def _pressure(self, seconds: float) -> float | None:
        if self._stalls is None or seconds <= 0:
            return None
        path, earlier = self._stalls
        now = _some(path)
        return None if now is None else min(1.0, max(0, now - earlier) / 1e6 / seconds)


def _throttling(level: Level) -> Throttling | None:
    """`throttled_usec` in version 2, `throttled_time` in nanoseconds in version 1."""
    stat = level.counters("cpu.stat")
    if "nr_periods" not in stat or "nr_throttled" not in stat:
        return None
    usec, nsec = stat.get("throttled_usec"), stat.get("throttled_time", 0)
    return Throttling(
        periods=stat["nr_periods"],
        throttled=stat["nr_throttled"],
        seconds=nsec / 1e9 if usec is None else usec / 1e6,
    )


def _kills(groups: list[Level]) -> int | None:
    """How many processes were killed for memory, on the level that counts most of them."""
    names = {2: "memory.events", 1: "memory.oom_control"}
    counts = [level.counters(names[level.version]).get("oom_kill") for level in groups]
    return max((count for count in counts if count is not None), default=None)


def _some(path: Path) -> int | None:
    """Microseconds in which some task waited: the `total` of the first line."""
    found = re.search(r"^some .*\btotal=(\d+)", text(path) or "", re.MULTILINE)
    return None if found is None else int(found[1])


def _swapped(root: Path) -> int | None:
    """Bytes that the machine read back from swap since it started."""
    pages = counters(root / "proc/vmstat").get("pswpin")
    return None if pages is None else pages * os.sysconf("SC_PAGE_SIZE")
