from __future__ import annotations

from pathlib import Path

from kit.stubs import write
from trainperf.machine import host


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
