"""The files a script read, by volume, and how fast a sample of them is cold and warm."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import trainperf
from trainperf.machine.storage import read_probe
from trainperf.model import Event, InstanceType, Reads, Recording, Volume
from trainperf.recording.machine.storage import VolumeKind
from trainperf.samplers.levels import Mount, mounts, text

EBS = "Amazon Elastic Block Store"

KINDS: dict[str, VolumeKind] = {
    **dict.fromkeys(("tmpfs", "ramfs"), "tmpfs"),
    **dict.fromkeys(("overlay", "fuse.fuse-overlayfs", "aufs"), "overlay"),
    **dict.fromkeys(("nfs", "nfs4"), "nfs"),
    "lustre": "lustre",
    **dict.fromkeys(
        ("fuse.mountpoint-s3", "fuse.s3fs", "fuse.goofys", "fuse.geesefs", "fuse.s3backer"),
        "s3 mount",
    ),
    **dict.fromkeys(
        ("9p", "beegfs", "ceph", "cifs", "fuse.sshfs", "glusterfs", "gpfs", "smb3", "virtiofs"),
        "network",
    ),
}
S3_SOURCES = ("mountpoint-s3", "s3fs", "goofys")
"""Sources of FUSE file systems on S3, whose type may say no more than "fuse"."""


def mount_of(path: str, mounted: Sequence[Mount]) -> Mount | None:
    """The mount that an absolute path without links lies on; of two at one point, the later."""
    best: Mount | None = None
    for one in mounted:
        point = one.point.rstrip("/")
        inside = path == point or path.startswith(point + "/")
        if inside and (best is None or len(one.point) >= len(best.point)):
            best = one
    return best


def volume_of(mount: Mount, root: Path, instance: InstanceType | None) -> Volume:
    """The volume behind a mount, with what the instance type gives to all its EBS volumes together.

    What a single gp3 volume was given (125 MiB/s unless raised) cannot be seen from inside.
    """
    kind = _kind(mount)
    if kind:
        device = "" if kind == "overlay" else mount.source
        return Volume(mount.point, kind, mount.filesystem, device)
    volume = _on_block_device(mount, root)
    if volume.kind != "ebs" or instance is None or instance.ebs_bytes_s is None:
        return volume
    basis = f"EBS baseline of {instance.name}"
    return replace(volume, limit_bytes_s=instance.ebs_bytes_s, limit_basis=basis)


def _kind(mount: Mount) -> VolumeKind:
    kind = KINDS.get(mount.filesystem, "")
    if kind == "nfs":
        # amazon-efs-utils mounts by way of a proxy on this host, without a reserved port.
        proxied = mount.source.startswith("127.0.0.1:") and "noresvport" in mount.options
        return "efs" if ".efs." in mount.source or proxied else "nfs"
    if not kind and mount.filesystem.startswith("fuse"):
        return "s3 mount" if mount.source.startswith(S3_SOURCES) else "network"
    return kind


def _on_block_device(mount: Mount, root: Path) -> Volume:
    place, name = root / "sys/dev/block" / mount.device, Path(mount.source).name
    if not place.exists() and mount.source.startswith("/dev/"):
        place = root / "sys/class/block" / name  # btrfs has numbers of its own
    disks = _disks(place)
    device = disks[0].name if disks else name
    if len(disks) > 1:
        device = f"{name} over {', '.join(disk.name for disk in disks)}"
    model = (text(disks[0] / "device/model") or "") if disks else ""
    kind: VolumeKind = "disk" if disks else ""
    if model == EBS:
        kind = "ebs"
    elif disks and disks[0].name.startswith("nvme"):
        kind = "nvme"
    return Volume(mount.point, kind, mount.filesystem, device, model)


def _disks(place: Path) -> list[Path]:
    """The disks beneath a block device: those of an array or a mapping, or of a partition."""
    if not place.exists():
        return []
    place = place.resolve()
    if slaves := sorted((place / "slaves").glob("*")):
        return [disk for slave in slaves for disk in _disks(slave)]
    return _disks(place.parent) if (place / "partition").exists() else [place]


STAT_S = 1.0
"""Seconds for the sizes of the files: over a network each of them is a request."""

LEAST_STATED = 20
EXAMPLES = 3


@dataclass
class _Seen:
    """Files on one volume: sizes by path."""

    sizes: dict[str, int] = field(default_factory=dict)
    there: list[tuple[str, int]] = field(default_factory=list)  # those not removed since


PROBES_S = 6.0
"""Seconds after which no further volume is probed: each takes about two."""

NO_ANSWER = "the file system did not answer in time"

NO_TIME = "no time was left to probe it"

PSEUDO = frozenset(
    {"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "bpf",
     "securityfs", "configfs", "fusectl", "mqueue", "pstore", "binfmt_misc", "nsfs"}
)  # fmt: skip
"""File systems that hold no data; a read there may have an effect."""

Found = tuple[Reads, ...]


def of_files(recording: Recording) -> tuple[Event, ...]:
    """The events that say which files were read, of all processes."""
    return tuple(one for own in recording.events.values() for one in own if one["e"] == "reads")


def examined(
    events: Sequence[Event],
    root: Path = Path("/"),
    instance: InstanceType | None = None,
    tell: Callable[[Found], None] = lambda found: None,
) -> Found:
    """Return what was read from each volume, most files first.

    Reads at most 64 MiB of 200 files in about 2 s per volume, and writes nothing. `root` is
    where /proc and /sys are looked for, `instance` what the EBS limit is taken from. `tell`
    takes what is known so far, before each volume is probed: it may not answer.
    """
    by_volume = _volumes(events, root, instance)
    stated = sum(len(seen.sizes) for seen in by_volume.values())
    until = time.monotonic() + PROBES_S
    found = {volume: _reads(volume, seen, events, stated) for volume, seen in by_volume.items()}
    ordered = sorted(found, key=lambda volume: -found[volume].files)
    for volume in ordered:
        if time.monotonic() > until:
            break
        silent = replace(found[volume], reason=NO_ANSWER)
        tell(tuple(silent if one is volume else found[one] for one in ordered))
        found[volume] = replace(found[volume], **vars(_probed(volume, by_volume[volume])))
    return tuple(found[one] for one in ordered)


def _names(event: Event) -> list[str]:
    """Paths that a process noticed; names in a dataset count where no open was seen."""
    return [*event["held"], *(event["paths"] if event["opens"] else event["named"])]


def _volumes(
    events: Sequence[Event], root: Path, instance: InstanceType | None
) -> dict[Volume, _Seen]:
    """What was read from each volume, as far as time lets ask for sizes."""
    mounted, until = mounts(root), time.monotonic() + STAT_S
    kept = {path: size for event in events for path, size in event["sizes"].items()}
    volumes: dict[str, Volume] = {"": Volume("", "", "")}
    found: dict[Volume, _Seen] = {}
    for many, path in enumerate(dict.fromkeys(path for event in events for path in _names(event))):
        if many >= LEAST_STATED and time.monotonic() > until:
            break
        size = _size(path)
        if size is None and path not in kept:
            continue
        mount = mount_of(os.path.realpath(path), mounted)
        if mount is not None and mount.filesystem in PSEUDO:
            continue
        if mount is not None and mount.point not in volumes:
            volumes[mount.point] = volume_of(mount, root, instance)
        seen = found.setdefault(volumes[mount.point if mount else ""], _Seen())
        seen.sizes[path] = kept[path] if size is None else size
        if size is not None:
            seen.there.append((path, size))
    return found


def _size(path: str) -> int | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _reads(volume: Volume, seen: _Seen, events: Sequence[Event], stated: int) -> Reads:
    """What was read from a volume, not probed yet."""
    sizes = sorted(seen.sizes.values())
    share = len(sizes) / stated
    files = max(len(sizes), round(share * _files(events)))
    return Reads(
        volume=volume,
        files=files,
        opens=round(share * sum(event["opens"] for event in events)),
        seconds=max(event["seconds"] for event in events),
        sizes=(_percentile(sizes, 0.1), _percentile(sizes, 0.5), _percentile(sizes, 0.9)),
        total_bytes=round(sum(sizes) * files / len(sizes)),
        examples=tuple(list(seen.sizes)[:EXAMPLES]),
        reason=NO_TIME,
        at_least=any(event["at_least"] for event in events),
    )


def _files(events: Sequence[Event]) -> int:
    """How many different files all processes read: ranks may read the same."""
    paths: set[str] = set()
    most = 0
    for event in events:
        paths.update(_names(event))
        most = max(most, event["files"] if event["opens"] else event["names"])
    return max(most, len(paths))


def _probed(volume: Volume, seen: _Seen) -> read_probe.Probed:
    if volume.kind == "tmpfs":
        return read_probe.Probed(reason="the files are in memory already")
    if not seen.there:
        return read_probe.Probed(reason="the files were removed when the script ended")
    pieces = read_probe.sample(seen.there)
    if not pieces:
        return read_probe.Probed(reason="the files are empty")
    return read_probe.probe(pieces)


def _percentile(ordered: Sequence[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# In a process of its own, which a file system may keep for ever. A thread would not do: who asks a
# dead network share or a FUSE program that hangs cannot be killed before it answers, and a process
# that has such a thread cannot end.

DEADLINE_S = 15.0
"""Seconds after which the process is left behind, killed: it ends when the kernel lets it."""

POLL_S = 0.1

_CODE = "from trainperf.machine.storage.reads import serve; serve()"

_WHERE = str(Path(trainperf.__file__).parent.parent)


def probe(
    recording: Recording,
    instance: InstanceType | None = None,
    deadline_s: float = DEADLINE_S,
    interrupted: Callable[[], bool] = lambda: False,
) -> Found:
    """Return what `examined` does, and come back within `deadline_s` in any case.

    Of a volume that does not answer the sizes are known at most.
    `interrupted` says whether the user wants an end: then what is known so far is returned.
    """
    events = of_files(recording)
    if not events:
        return ()
    try:
        process = subprocess.Popen(
            # -P: a module of the user's in the current folder is not one of ours.
            (sys.executable, "-P", "-c", f"import sys; sys.path.append({_WHERE!r}); {_CODE}"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return ()
    told: list[Found] = []
    thread = threading.Thread(
        target=_talk, args=(process, (os.getpid(), events, instance), told), daemon=True
    )
    thread.start()
    until = time.monotonic() + deadline_s
    while thread.is_alive() and time.monotonic() < until and not interrupted():
        thread.join(POLL_S)
    process.kill()
    if not thread.is_alive():
        process.wait()
    return told[-1] if told else ()


def _talk(process: subprocess.Popen[bytes], question: Any, told: list[Found]) -> None:
    """Ask, and take what it tells, the latest last, until it ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin as to:
            pickle.dump(question, to)
        while True:
            told.append(pickle.load(process.stdout))
    except (EOFError, OSError, ValueError, pickle.UnpicklingError):
        return


def serve() -> None:
    """Be that process: read the question from stdin, write what is known to stdout."""
    parent, events, instance = pickle.load(sys.stdin.buffer)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    out: IO[bytes] = sys.stdout.buffer
    if os.getppid() != parent:
        os._exit(1)

    def tell(found: Found) -> None:
        pickle.dump(found, out)
        out.flush()

    tell(examined(events, instance=instance, tell=tell))
