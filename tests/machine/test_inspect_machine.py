from __future__ import annotations

from pathlib import Path

import pytest

from kit.stubs import write
from trainperf.machine import inspect_machine

GIB = 1024**3
MEMORY = (
    f"MemTotal: {16 * 1024**2} kB\nMemFree: 0 kB\nMemAvailable: {8 * 1024**2} kB\n"
    "SwapTotal: 0 kB\nSwapFree: 0 kB\n"
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 16 GiB whose container may use half a core and 4 GiB."""
    files = {
        "proc/meminfo": MEMORY,
        "proc/cpuinfo": "model name : A CPU\n",
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/cpu.max": "50000 100000\n",
        "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
        "sys/fs/cgroup/memory.current": f"{GIB}\n",
    }
    monkeypatch.setattr("psutil.PROCFS_PATH", str(tmp_path / "proc"))
    return write(tmp_path, files)


def test_the_limits_of_a_container_count(root: Path) -> None:
    machine = inspect_machine(root)
    assert (machine.quota_cores, machine.cores) == (0.5, 0.5)
    assert machine.memory_total == 16 * GIB
    assert machine.memory_limit == 4 * GIB
    assert machine.memory_available == 3 * GIB
    assert machine.cpu_model == "A CPU"


@pytest.mark.filterwarnings("error")
def test_what_is_not_there_is_none_and_not_zero(root: Path) -> None:
    machine = inspect_machine(root, directory=root / "missing")

    assert (machine.shm_total, machine.shm_free, machine.disk_free) == (None, None, None)
