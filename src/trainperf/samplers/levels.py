"""The control groups above a process, of both versions, and their limits.

A limit may stand on any level above the process, so every level that can be seen is
walked, innermost first. Both versions of cgroups may be mounted at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# Version 1 writes "no limit" as the largest multiple of the page size below 2^63.
_UNLIMITED = 1 << 60


@dataclass(frozen=True)
class Level:
    """One control group on the way up from the process; `version` of cgroups: 1 or 2."""

    folder: Path
    version: int

    def number(self, name: str) -> int | None:
        """Return the number in a file of the group; None without one ("max")."""
        return whole(text(self.folder / name) or "")

    def counters(self, name: str) -> dict[str, int]:
        """Return the numbers of a file of `name value` lines, by name."""
        return counters(self.folder / name)

    @property
    def quota(self) -> float | None:
        """The CPU quota of this level in cores; None without one."""
        if self.version == 2:
            first, _, second = (text(self.folder / "cpu.max") or "max").partition(" ")
            quota, period = whole(first), whole(second)
            return quota / period if quota is not None and period else None
        allowed, period = self.number("cpu.cfs_quota_us"), self.number("cpu.cfs_period_us")
        return allowed / period if allowed and period else None  # -1 is no limit

    @property
    def memory_limit(self) -> int | None:
        """The memory limit of this level in bytes; None without one."""
        limit = self.number("memory.max" if self.version == 2 else "memory.limit_in_bytes")
        return None if limit is None or limit >= _UNLIMITED else limit

    @property
    def memory_used(self) -> int | None:
        """Bytes in use that the kernel cannot simply drop; None where it does not say.

        Page cache that was not used lately (inactive) is what it drops first.
        """
        used = self.number("memory.current" if self.version == 2 else "memory.usage_in_bytes")
        if used is None:
            return None
        cache = "inactive_file" if self.version == 2 else "total_inactive_file"
        return max(0, used - self.counters("memory.stat").get(cache, 0))


def levels(root: Path, controller: str) -> Iterator[Level]:
    """Yield the groups that hold this process, innermost first, of both versions."""
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            mount, version = _mount(root, "cgroup2", ""), 2
        elif controller in controllers.split(","):
            mount, version = _mount(root, "cgroup", controller), 1
        else:
            continue
        if mount is not None:
            top, shown = mount
            yield from _upwards(top, _below(path, shown), version)


def text(path: Path) -> str | None:
    """Return a file's text without blanks around it; None if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def counters(path: Path) -> dict[str, int]:
    """Return the numbers of a file of `name value` lines, by name."""
    found = {}
    for line in (text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if (number := whole(value)) is not None:
            found[name] = number
    return found


def whole(digits: str) -> int | None:
    """Return the number that a text of decimal digits is; None for any other text."""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 40 else None


def _upwards(top: Path, path: PurePosixPath, version: int) -> Iterator[Level]:
    parts = [part for part in path.parts if part != "/"]
    if ".." in parts:  # the process was moved out of the namespace it sees
        parts = []
    for depth in range(len(parts), -1, -1):
        yield Level(top.joinpath(*parts[:depth]), version)


def _below(path: str, shown: str) -> PurePosixPath:
    """Return `path` relative to `shown`, the part of the hierarchy that is mounted.

    In a container without a cgroup namespace the path is the host's and the mount
    shows the container's own group as its top.
    """
    group, top = PurePosixPath(path), PurePosixPath(shown)
    return group.relative_to(top) if group.is_relative_to(top) else PurePosixPath("")


def _mount(root: Path, kind: str, controller: str) -> tuple[Path, str] | None:
    """Return where a hierarchy is mounted and which part of it is shown there."""
    for mount in mounts(root):
        if mount.filesystem == kind and (not controller or controller in mount.options):
            return root / mount.point.lstrip("/"), mount.shown
    return None


@dataclass(frozen=True)
class Mount:
    """A line of `mountinfo`; `device` is "major:minor", `options` those of the file system.

    `shown` is the part of the file system that is mounted.
    """

    device: str
    point: str
    filesystem: str
    source: str
    options: tuple[str, ...] = ()
    shown: str = "/"


def mounts(root: Path = Path("/")) -> tuple[Mount, ...]:
    """The mounts in the order of mounting; empty where the system does not say."""
    try:
        content = (root / "proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return ()
    return tuple(found for line in content.splitlines() if (found := _read(line)) is not None)


def _read(line: str) -> Mount | None:
    """Read a line as proc(5) describes it: optional fields end with a single hyphen."""
    before, hyphen, after = line.partition(" - ")
    left, right = before.split(), after.split()
    if not hyphen or len(left) < 6 or len(right) < 2:
        return None
    options = right[2].split(",") if len(right) > 2 else []
    shown, point, source = map(_plain, (left[3], left[4], right[1]))
    return Mount(left[2], point, right[0], source, tuple(options), shown)


def _plain(escaped: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), escaped)
