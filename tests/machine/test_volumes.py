"""Where a path lies is read off what Linux says of mounts and block devices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainperf.machine.storage.reads import mount_of, volume_of
from trainperf.model import InstanceType, Volume
from trainperf.samplers.levels import Mount, mounts

EBS = "Amazon Elastic Block Store              "
STORE = "Amazon EC2 NVMe Instance Storage        "


def mountinfo(root: Path, *lines: str) -> tuple[Mount, ...]:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/mountinfo").write_text("\n".join(lines) + "\n")
    return mounts(root)


def disk(root: Path, name: str, number: str, model: str = "", partition: str = "") -> None:
    """A disk as /sys shows it, with a partition if one is named."""
    place = root / "sys/devices/pci/block" / name
    (place / "device").mkdir(parents=True, exist_ok=True)
    if model:
        (place / "device/model").write_text(model + "\n")
    if partition:
        place = place / partition
        place.mkdir()
        (place / "partition").write_text("1\n")
    for folder, key in (("sys/dev/block", number), ("sys/class/block", place.name)):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / key).symlink_to(os.path.relpath(place, root / folder))


def on(root: Path, path: str, *lines: str, instance: InstanceType | None = None) -> Volume:
    mount = mount_of(path, mountinfo(root, *lines))
    assert mount is not None
    return volume_of(mount, root, instance)


ROOT = "27 1 259:1 / / rw,relatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2"


def test_a_partition_of_an_ebs_volume_is_ebs_with_the_limit_of_the_instance(
    tmp_path: Path,
) -> None:
    disk(tmp_path, "nvme0n1", "259:1", EBS, partition="nvme0n1p1")
    kind = InstanceType("g5.xlarge", 4, 16, ebs_bytes_s=437.5e6)

    volume = on(tmp_path, "/home/me/data", ROOT, instance=kind)

    assert (volume.kind, volume.device, volume.filesystem) == ("ebs", "nvme0n1", "xfs")
    assert volume.limit_bytes_s == 437.5e6
    assert "g5.xlarge" in volume.limit_basis
    assert on(tmp_path, "/home/me/data", ROOT).limit_bytes_s is None


def test_an_array_is_the_disks_in_it(tmp_path: Path) -> None:
    disk(tmp_path, "nvme1n1", "259:2", STORE)
    disk(tmp_path, "nvme2n1", "259:3", STORE)
    disk(tmp_path, "md0", "9:0")
    slaves = tmp_path / "sys/devices/pci/block/md0/slaves"
    slaves.mkdir()
    for name in ("nvme1n1", "nvme2n1"):
        (slaves / name).symlink_to(f"../../{name}")

    volume = on(tmp_path, "/raid/a", "40 1 9:0 / /raid rw - xfs /dev/md0 rw")

    assert volume.kind == "nvme"
    assert volume.device == "md0 over nvme1n1, nvme2n1"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("40 1 0:51 / /data rw - tmpfs tmpfs rw", "tmpfs"),
        ("40 1 0:51 / /data rw - nfs4 fs-1.efs.eu-west-1.amazonaws.com:/ rw", "efs"),
        ("40 1 0:51 / /data rw - nfs4 127.0.0.1:/ rw,noresvport,port=20049", "efs"),
        ("40 1 0:51 / /data rw - nfs4 server:/export rw", "nfs"),
        ("40 1 0:51 / /data rw - lustre 10.0.0.1@tcp:/fsx rw", "lustre"),
        ("40 1 0:51 / /data ro - fuse mountpoint-s3 rw", "s3 mount"),
        ("40 1 0:51 / /data ro - fuse.s3fs s3fs rw", "s3 mount"),
        ("40 1 0:51 / /data ro - fuse.sshfs me@host: rw", "network"),
        ("40 1 0:51 / /data rw - cifs //server/share rw", "network"),
        ("40 1 7:51 / /data rw - ext4 /dev/unknown rw", ""),
        ("40 1 0:51 / /data rw - overlay overlay rw", "overlay"),
    ],
)
def test_a_file_system_says_what_it_is(tmp_path: Path, line: str, kind: str) -> None:
    assert on(tmp_path, "/data/a", ROOT, line).kind == kind
