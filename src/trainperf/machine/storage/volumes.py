"""The file system a path lies on, and the device beneath it, by what Linux says of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainperf.model import InstanceType, Volume
from trainperf.recording.machine.storage import VolumeKind
from trainperf.samplers.levels import Mount, text

EBS = "Amazon Elastic Block Store"
INSTANCE_STORE = "Amazon EC2 NVMe Instance Storage"

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


def volume_of(
    mount: Mount,
    mounted: Sequence[Mount] = (),
    root: Path = Path("/"),
    instance: InstanceType | None = None,
) -> Volume:
    """The volume behind a mount; of an overlay, the device of its upper layer if it is seen."""
    kind = _kind(mount)
    if kind == "overlay":
        upper = next((o[9:] for o in mount.options if o.startswith("upperdir=")), "")
        below = mount_of(upper, mounted) if upper else None
        known = Path(root, upper.lstrip("/")).exists() if upper else False
        if below is not None and known and _kind(below) != "overlay":
            found = volume_of(below, mounted, root, instance)
            return replace(found, mount=mount.point, filesystem="overlay")
        return Volume(mount.point, kind, mount.filesystem)
    if kind:
        return Volume(mount.point, kind, mount.filesystem, mount.source)
    return _limited(_on_block_device(mount, root), instance)


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
    place = root / "sys/dev/block" / mount.device
    if not place.exists() and mount.source.startswith("/dev/"):
        place = root / "sys/class/block" / Path(mount.source).name  # btrfs has numbers of its own
    names, models = [], []
    for disk in _disks(place):
        names.append(disk.name)
        models.append(text(disk / "device/model") or "")
    device = names[0] if names else Path(mount.source).name
    if len(names) > 1:
        device = f"{Path(mount.source).name} over {', '.join(names)}"
    model = models[0] if models else ""
    kind: VolumeKind = "disk" if names else ""
    if model == EBS:
        kind = "ebs"
    elif model == INSTANCE_STORE or (names and names[0].startswith("nvme")):
        kind = "nvme"
    return Volume(mount.point, kind, mount.filesystem, device, model)


def _disks(place: Path) -> list[Path]:
    """The disks beneath a block device: those of an array or a mapping, or of a partition."""
    try:
        place = place.resolve(strict=True)
    except OSError:
        return []
    try:
        slaves = sorted((place / "slaves").iterdir())
    except OSError:
        slaves = []
    if slaves:
        return [disk for one in slaves for disk in _disks(one)]
    if (place / "partition").exists():
        return _disks(place.parent)
    return [place]


def _limited(volume: Volume, instance: InstanceType | None) -> Volume:
    """With what the instance type gives to all its EBS volumes together, for one of them.

    What a single gp3 volume was given (125 MiB/s unless raised) cannot be seen from inside.
    """
    if volume.kind != "ebs" or instance is None or instance.ebs_bytes_s is None:
        return volume
    basis = f"EBS baseline of {instance.name}"
    return replace(volume, limit_bytes_s=instance.ebs_bytes_s, limit_basis=basis)
