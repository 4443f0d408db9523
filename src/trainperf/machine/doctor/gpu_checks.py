"""The checks of a GPU's health that need no load: errors, modes, who else uses it."""

from __future__ import annotations

from trainperf.machine.doctor.checkup import Check
from trainperf.model import Gpu, Machine
from trainperf.model.words import size

HELD = 0.25
"""Share of a GPU's memory in use from which a training may lack it; our choice."""

BUSY = 0.05
"""Share of the time from which others keep a GPU busy; below, they only hold memory."""


def check_gpu_health(machine: Machine) -> tuple[Check, ...]:
    """Say what is wrong with each GPU; nothing of what the driver does not tell.

    The width and the speed of the PCIe link and the clocks are judged during a run: an
    idle GPU lowers them.
    """
    return tuple(
        check
        for gpu in machine.gpus
        for check in (
            *(_ecc(gpu), _others(gpu), _full(gpu)),
            *(_mode(gpu), _mig(gpu), _persistence(gpu)),
        )
        if check is not None
    )


def _ecc(gpu: Gpu) -> Check | None:
    if not gpu.ecc_errors:
        return None
    errors = "1 error" if gpu.ecc_errors == 1 else f"{gpu.ecc_errors} errors"
    return Check(
        f"GPU {gpu.index} memory",
        "problem",
        f"{errors} that could not be corrected since the driver was loaded",
        f"with nothing running on it: sudo nvidia-smi -i {gpu.index} --gpu-reset;"
        " if errors come back, replace the card",
    )


def _others(gpu: Gpu) -> Check | None:
    if not gpu.other_processes:
        return None
    who = "1 process has" if gpu.other_processes == 1 else f"{gpu.other_processes} processes have"
    busy = "" if gpu.busy_before is None else f", busy {gpu.busy_before * 100:.0f} % of the time"
    idle = gpu.busy_before is not None and gpu.busy_before < BUSY
    return Check(
        f"GPU {gpu.index} use",
        "ok" if idle else "warning",
        f"{who} it open{busy}",
        "" if idle else "end them, or train on another GPU (CUDA_VISIBLE_DEVICES)",
    )


def _full(gpu: Gpu) -> Check | None:
    held, total = gpu.memory_before, gpu.memory_total
    if gpu.mig or not held or not total or held < HELD * total:
        return None
    return Check(
        f"GPU {gpu.index} free memory",
        "warning",
        f"{size(total - held)} of {size(total)}: others hold the rest",
        "end them (nvidia-smi lists them), or train on another GPU",
    )


def _mode(gpu: Gpu) -> Check | None:
    if gpu.compute_mode not in ("exclusive", "prohibited"):
        return None
    off = f"sudo nvidia-smi -i {gpu.index} -c 0"
    if gpu.compute_mode == "prohibited":
        return Check(f"GPU {gpu.index} mode", "problem", "prohibited: no program can use it", off)
    return Check(
        f"GPU {gpu.index} mode",
        "warning",
        "exclusive: one program at a time, so that trials run one after another",
        off,
    )


def _mig(gpu: Gpu) -> Check | None:
    if not gpu.mig:
        return None
    return Check(f"GPU {gpu.index} MIG", "ok", "on: a program gets a slice of the card")


def _persistence(gpu: Gpu) -> Check | None:
    if gpu.persistence is not False:
        return None
    return Check(
        f"GPU {gpu.index} persistence",
        "ok",
        "off: each program waits for the driver to start the card (sudo nvidia-smi -pm 1)",
    )
