"""What the control groups of this process allow it: CPU time and memory.

A limit may stand on any level above the process, so every level that can be seen is
read and the smallest limit counts. Both versions of cgroups may be mounted at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# Version 1 writes "no limit" as the largest multiple of the page size below 2^63.
_UNLIMITED = 1 << 60


@dataclass(frozen=True)
class MemoryLimit:
    """The smallest memory limit, and what is left below the limits; bytes.

    Page cache that the kernel would drop first counts as left.
    """

    limit: int
    available: int


@dataclass(frozen=True)
class _Level:
    """One control group on the way up from the process."""

    folder: Path
    version: int


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the CPU quota in cores, or None where there is no quota."""
    quotas = [quota for level in _levels(root, "cpu") if (quota := _level_quota(level)) is not None]
    return min(quotas, default=None)


def memory_limit(root: Path = Path("/")) -> MemoryLimit | None:
    """Return the memory limit and what is left, or None where there is no limit."""
    limits = [
        (limit, _used(level))
        for level in _levels(root, "memory")
        if (limit := _level_limit(level)) is not None
    ]
    if not limits:
        return None
    return MemoryLimit(
        limit=min(limit for limit, _ in limits),
        available=min(max(0, limit - used) for limit, used in limits),
    )


def _level_quota(level: _Level) -> float | None:
    if level.version == 2:
        quota, _, period = (_text(level.folder / "cpu.max") or "max").partition(" ")
        if not quota.isdigit() or not period.isdigit() or int(period) == 0:
            return None
        return int(quota) / int(period)
    allowed = _number(level.folder / "cpu.cfs_quota_us")
    each = _number(level.folder / "cpu.cfs_period_us")
    if allowed is None or not each or allowed <= 0:
        return None
    return allowed / each


def _level_limit(level: _Level) -> int | None:
    name = "memory.max" if level.version == 2 else "memory.limit_in_bytes"
    limit = _number(level.folder / name)
    return None if limit is None or limit >= _UNLIMITED else limit


def _used(level: _Level) -> int:
    """Bytes in use that the kernel cannot simply drop."""
    current = "memory.current" if level.version == 2 else "memory.usage_in_bytes"
    cache = "inactive_file" if level.version == 2 else "total_inactive_file"
    used = _number(level.folder / current) or 0
    for line in (_text(level.folder / "memory.stat") or "").splitlines():
        key, _, value = line.partition(" ")
        if key == cache and value.isdigit():
            used -= int(value)
    return max(0, used)


def _levels(root: Path, controller: str) -> Iterator[_Level]:
    """Yield the groups that hold this process, innermost first, of both versions."""
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            mount, version = _mount(root, "cgroup2", ""), 2
        elif controller in controllers.split(","):
            mount, version = _mount(root, "cgroup", controller), 1
        else:
            continue
        if mount is None:
            continue
        top, shown = mount
        yield from _upwards(top, _below(path, shown), version)


def _upwards(top: Path, path: PurePosixPath, version: int) -> Iterator[_Level]:
    parts = [part for part in path.parts if part != "/"]
    if ".." in parts:  # the process was moved out of the namespace it sees
        parts = []
    for depth in range(len(parts), -1, -1):
        yield _Level(top.joinpath(*parts[:depth]), version)


def _below(path: str, shown: str) -> PurePosixPath:
    """Return `path` relative to `shown`, the part of the hierarchy that is mounted.

    In a container without a cgroup namespace the path is the host's and the mount
    shows the container's own group as its top.
    """
    whole, part = PurePosixPath(path), PurePosixPath(shown)
    if whole.is_relative_to(part):
        return whole.relative_to(part)
    return PurePosixPath("")


def _mount(root: Path, kind: str, controller: str) -> tuple[Path, str] | None:
    """Return where a hierarchy is mounted and which part of it is shown there.

    See proc(5), /proc/pid/mountinfo: "36 35 98:0 /shown /mounted rw - type src opts".
    """
    for line in (_text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) < 5 or len(rest) < 3 or rest[0] != kind:
            continue
        if controller and controller not in rest[2].split(","):
            continue
        return root / fields[4].lstrip("/"), fields[3]
    return None


def _number(path: Path) -> int | None:
    text = _text(path)
    try:
        return None if text is None else int(text)
    except ValueError:  # "max"
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
