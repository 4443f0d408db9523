from __future__ import annotations

from pathlib import Path

from kit.stubs import write
from trainperf.machine import host
from trainperf.samplers.container import Quota

GIB = 1024**3
MOUNT_V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
MOUNT_V1 = (
    "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)


def test_the_smallest_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/mountinfo": MOUNT_V2,
            "proc/self/cgroup": "0::/slice/pod/job\n",
            "sys/fs/cgroup/slice/cpu.max": "800000 100000\n",
            "sys/fs/cgroup/slice/pod/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/slice/pod/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/slice/memory.max": f"{16 * GIB}\n",
            "sys/fs/cgroup/slice/memory.current": f"{6 * GIB}\n",
            "sys/fs/cgroup/slice/memory.stat": f"anon 5\ninactive_file {4 * GIB}\n",
            "sys/fs/cgroup/slice/pod/job/memory.max": f"{64 * GIB}\n",
        },
    )
    assert Quota(root).cores == 2.5
    assert host.memory_limit(root) == (16 * GIB, 14 * GIB)


def test_version_1_limits_are_read(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/mountinfo": MOUNT_V1,
            "proc/self/cgroup": "5:cpu,cpuacct:/job\n4:memory:/job\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",  # no limit
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "150000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{4 * GIB}\n",
            "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{3 * GIB}\n",
            "sys/fs/cgroup/memory/job/memory.stat": f"total_inactive_file {2 * GIB}\n",
        },
    )
    assert Quota(root).cores == 1.5
    assert host.memory_limit(root) == (4 * GIB, 3 * GIB)


def test_a_container_without_a_namespace_sees_the_path_of_its_host(tmp_path: Path) -> None:
    mount = "31 23 0:27 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
    root = write(
        tmp_path,
        {
            "proc/self/mountinfo": mount,
            "proc/self/cgroup": "5:cpu:/docker/abc\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert Quota(root).cores == 3.0


def test_only_nvidia_display_devices_count_as_gpus_on_the_bus(tmp_path: Path) -> None:
    devices = {
        "gpu": ("0x10de", "0x030200"),
        "its-audio": ("0x10de", "0x040300"),
        "other-gpu": ("0x1002", "0x030000"),
    }
    for name, (vendor, kind) in devices.items():
        write(tmp_path, {f"sys/bus/pci/devices/{name}/vendor": vendor + "\n"})
        write(tmp_path, {f"sys/bus/pci/devices/{name}/class": kind + "\n"})
    assert host.nvidia_on_the_bus(tmp_path) == 1
