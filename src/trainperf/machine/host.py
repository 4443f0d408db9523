"""The host as Linux describes it, and the limits that control groups set this process.

The smallest limit on any level above the process counts.
"""

from __future__ import annotations

import platform
from contextlib import suppress
from pathlib import Path

from trainperf.samplers.levels import levels, text

# MIDR part numbers of the processors that stand in GPU boxes (Arm's CPU identification).
_ARM_PARTS = {
    "0xd0c": "Arm Neoverse N1",
    "0xd40": "Arm Neoverse V1",
    "0xd49": "Arm Neoverse N2",
    "0xd4f": "Arm Neoverse V2",
}


def operating_system() -> str:
    """Return the distribution and the kernel: "Ubuntu 22.04.4 LTS, Linux 6.1"."""
    kernel = f"{platform.system()} {platform.release()}"
    with suppress(OSError, ValueError):
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    return kernel


def cpu_model(root: Path = Path("/")) -> str:
    """Return the name of the processor, or its architecture if it has none."""
    lines = (text(root / "proc/cpuinfo") or "").splitlines()
    pairs = (line.partition(":") for line in reversed(lines))  # the first of a name counts
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    name = fields.get("model name") or _ARM_PARTS.get(fields.get("CPU part", ""))
    return name or platform.machine() or "unknown"


def nvidia_on_the_bus(root: Path = Path("/")) -> int:
    """Return how many NVIDIA GPUs the PCI bus shows, with or without a driver."""
    count = 0
    for device in (root / "sys/bus/pci/devices").glob("*"):
        vendor, kind = text(device / "vendor"), text(device / "class") or ""
        # Class 0x03 is a display controller: 0x0300 VGA, 0x0302 "3D" (data-centre GPUs).
        count += vendor == "0x10de" and kind.startswith("0x03")
    return count


def memory_limit(root: Path = Path("/")) -> tuple[int, int] | None:
    """Return the smallest memory limit and what is left below the limits; None without any.

    Bytes. Page cache that the kernel would drop first counts as left.
    """
    limits = [
        (limit, level.memory_used or 0)
        for level in levels(root, "memory")
        if (limit := level.memory_limit) is not None
    ]
    if not limits:
        return None
    return min(limits)[0], min(max(0, limit - used) for limit, used in limits)
