"""A run of a script as a check looks at it."""

from __future__ import annotations

from pathlib import Path

from trainperf.check.values import Repeat, Speed
from trainperf.model import Diagnosis, Machine, PhaseUse

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""The name of the last start of the kernel (Linux), the same in every container on it."""


def repeat(diagnosis: Diagnosis, speed: Speed | None = None, boot: str = "") -> Repeat:
    """The figures of a diagnosis that a check compares; its step must have been timed. Pure.

    `boot` names the start of the machine that it ran on, as `boot_name` does.
    """
    times = diagnosis.times
    assert times.real_s is not None
    blocks = sorted(times.spread.get("real", ()))
    fastest = blocks[0] if blocks else times.real_s
    quarter = blocks[(len(blocks) - 1) // 4] if len(blocks) > 3 else None
    use = next((one for one in diagnosis.utilization if one.phase == "real"), None)
    return Repeat(
        fastest_s=fastest,
        mean_s=times.real_s,
        noise=times.noise,
        agreement=None if quarter is None else quarter / fastest - 1,
        batch_size=diagnosis.loop.batch_size if diagnosis.loop is not None else None,
        cores=None if use is None else use.cpu_cores,
        others=None if use is None else _others(use),
        utilization=diagnosis.verdict.utilization,
        findings=tuple(one.id for one in diagnosis.findings),
        speed=speed,
        bounds=tuple(one.bound for one in diagnosis.findings),
        idle=None if use is None else _idle(use, diagnosis.machine),
        hosts=tuple(filter(None, (diagnosis.machine.hostname, boot))),
    )


def boot_name() -> str:
    """The id of this machine's last start; "" where it has none."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""


def _others(use: PhaseUse) -> float | None:
    """Cores that other programs kept busy while the script trained."""
    if use.cpu_cores is None or use.machine_cpu_cores is None:
        return None
    return max(0.0, use.machine_cpu_cores - use.cpu_cores)


def _idle(use: PhaseUse, machine: Machine) -> float | None:
    """Cores that nobody kept busy; None where the script may not use all of them."""
    if use.machine_cpu_cores is None or machine.cores < machine.visible_cores:
        return None
    return max(0.0, machine.visible_cores - use.machine_cpu_cores)
