"""The host as Linux describes it: processor, memory, file systems."""

from __future__ import annotations

import platform
from pathlib import Path

# MIDR part numbers of the processors that stand in GPU boxes (Arm's CPU identification).
_ARM_PARTS = {
    "0xd0c": "Arm Neoverse N1",
    "0xd40": "Arm Neoverse V1",
    "0xd49": "Arm Neoverse N2",
    "0xd4f": "Arm Neoverse V2",
}


def operating_system(root: Path = Path("/")) -> str:
    """Return the distribution and the kernel: "Ubuntu 22.04.4 LTS, Linux 6.1"."""
    kernel = f"{platform.system()} {platform.release()}"
    name = _fields(root / "etc/os-release", "=").get("PRETTY_NAME", "").strip('"')
    return f"{name}, {kernel}" if name else kernel


def cpu_model(root: Path = Path("/")) -> str:
    """Return the name of the processor, or its architecture if it has none."""
    fields = _fields(root / "proc/cpuinfo", ":")
    name = fields.get("model name") or _ARM_PARTS.get(fields.get("CPU part", ""))
    return name or platform.machine() or "unknown"


def nvidia_on_the_bus(root: Path = Path("/")) -> int:
    """Return how many NVIDIA GPUs the PCI bus shows, with or without a driver."""
    count = 0
    for device in (root / "sys/bus/pci/devices").glob("*"):
        try:
            vendor = (device / "vendor").read_text().strip()
            kind = (device / "class").read_text().strip()
        except OSError:
            continue
        # Class 0x03 is a display controller: 0x0300 VGA, 0x0302 "3D" (data-centre GPUs).
        count += vendor == "0x10de" and kind.startswith("0x03")
    return count


def _fields(path: Path, separator: str) -> dict[str, str]:
    """Return the first value of each name in a file of `name: value` lines."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return {}
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, found, value = line.partition(separator)
        if found:
            fields.setdefault(name.strip(), value.strip())
    return fields
