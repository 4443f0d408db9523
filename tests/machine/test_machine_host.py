from __future__ import annotations

from pathlib import Path

import pytest

from kit.stubs import write
from trainperf.machine import host


def test_memory_and_swap_are_read_in_bytes(tmp_path: Path) -> None:
    swap = "SwapTotal: 8 kB\nSwapFree: 6 kB\n"
    text = f"MemTotal:  16 kB\nMemFree: 1 kB\nMemAvailable: 12 kB\n{swap}"
    write(tmp_path, {"proc/meminfo": text})
    assert host.memory(tmp_path) == host.Memory(16 * 1024, 12 * 1024, 8 * 1024, 6 * 1024)


def test_a_machine_without_proc_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="meminfo"):
        host.memory(tmp_path)


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
