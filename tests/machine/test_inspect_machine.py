from __future__ import annotations

from pathlib import Path

import pytest

from trainperf.machine import inspect_machine

GIB = 1024**3
ZERO = ("MemFree", "Buffers", "Cached", "Active", "Inactive", "SReclaimable", "Shmem", "Slab",
        "SwapTotal", "SwapFree")  # fmt: skip
MEMORY = f"MemTotal: {16 * 1024**2} kB\nMemAvailable: {8 * 1024**2} kB\n" + "".join(
    f"{name}: 0 kB\n" for name in ZERO
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 16 GiB whose container may use half a core and 4 GiB."""
    files = {
        "proc/meminfo": MEMORY,
        "proc/vmstat": "pswpin 0\npswpout 0\n",
        "proc/cpuinfo": "model name : A CPU\n",
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/cpu.max": "50000 100000\n",
        "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
        "sys/fs/cgroup/memory.current": f"{GIB}\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr("psutil.PROCFS_PATH", str(tmp_path / "proc"))
    return tmp_path


def test_the_limits_of_a_container_count(root: Path) -> None:
    machine = inspect_machine(root)
    assert (machine.quota_cores, machine.cores) == (0.5, 0.5)
    assert machine.memory_total == 16 * GIB
    assert machine.memory_limit == 4 * GIB
    assert machine.memory_available == 3 * GIB
    assert machine.cpu_model == "A CPU"


def test_a_limit_above_the_physical_memory_is_no_limit(root: Path) -> None:
    (root / "sys/fs/cgroup/memory.max").write_text(f"{64 * GIB}\n")
    machine = inspect_machine(root)
    assert machine.memory_limit == 16 * GIB
    assert machine.memory_available == 8 * GIB


def test_what_is_not_there_is_none_and_not_zero(root: Path) -> None:
    machine = inspect_machine(root, directory=root / "missing")
    assert (machine.shm_total, machine.shm_free, machine.disk_free) == (None, None, None)


def test_this_machine_can_be_inspected() -> None:
    machine = inspect_machine()
    assert machine.cores > 0
    assert 0 < machine.memory_available <= machine.memory_total
    assert machine.gpus or machine.gpu_reason
