"""The checks that need no framework: GPUs, instance, cores and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from trainperf.machine.instance import NOT_AWS
from trainperf.model import Machine
from trainperf.model.words import count, size
from trainperf.samplers.nvml import NO_DRIVER, NO_GPU, NOT_LOADED

MIB, GIB = 1024**2, 1024**3

SHM_DOCKER_DEFAULT = 64 * MIB
"""Docker's default for --shm-size; PyTorch's loader workers hand batches over there."""

MEMORY_LOW = 0.10
"""Share of memory left below which a run is likely to be killed or to swap; our choice."""

HELD = 0.25
"""Share of a GPU's memory in use from which a training may lack it; our choice."""

BUSY = 0.05
"""Share of the time from which others keep a GPU busy; below, they only hold memory."""

Status = Literal["ok", "warning", "problem", "unknown"]


@dataclass(frozen=True)
class Check:
    """One thing looked at: a name, what was found, and what to do about it.

    `status` is "ok", "warning" (works, but costs speed or may bite), "problem" (does
    not work as it should) or "unknown" (could not be looked at; `text` says why).
    `advice` is empty where there is nothing to do.
    """

    name: str
    status: Status
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Checkup:
    """The machine and everything that was checked about it, in reading order."""

    machine: Machine
    checks: tuple[Check, ...]


def check_gpus(machine: Machine, on_the_bus: int) -> tuple[Check, ...]:
    """Describe GPUs and driver, or say why there are none."""
    if not machine.gpus:
        return (_no_gpu(machine, on_the_bus),)
    checks = []
    for gpu in machine.gpus:
        facts = [gpu.name]
        if gpu.memory_total is not None:
            facts.append(size(gpu.memory_total))
        if gpu.compute_capability is not None:
            facts.append(f"compute capability {gpu.compute_capability}")
        if gpu.power_limit_w is not None:
            facts.append(f"{gpu.power_limit_w:.0f} W")
        checks.append(Check(f"GPU {gpu.index}", "ok", ", ".join(facts)))
    if machine.gpu_reason:
        checks.append(Check("GPU", "problem", _sentence(machine.gpu_reason), "try nvidia-smi"))
    driver = machine.driver or "version not known"
    cuda = f", supports CUDA up to {machine.driver_cuda}" if machine.driver_cuda else ""
    return (*checks, Check("NVIDIA driver", "ok", driver + cuda))


def _no_gpu(machine: Machine, on_the_bus: int) -> Check:
    """Say why no GPU was checked: it is a problem only where there should be one."""
    reason, instance = machine.gpu_reason, machine.instance
    there = f"{on_the_bus} NVIDIA GPU(s) on the PCI bus" if on_the_bus else ""
    absent = reason in (NO_DRIVER, NOT_LOADED, NO_GPU)
    if absent and not there and instance and instance.type and instance.type.gpus:
        there = f"{instance.name} has {instance.type.gpus} × {instance.type.gpu or 'GPU'}"
    if there:
        text = f"{there}, but: {reason}. GPU checks were not made."
        advice = "install or load the driver; in a container, start it with --gpus all"
        return Check("GPU", "problem", text, advice)
    if absent:
        return Check("GPU", "unknown", f"{_sentence(reason)} GPU checks were not made.")
    return Check("GPU", "problem", _sentence(reason), "try nvidia-smi")


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def check_gpu_health(machine: Machine) -> Iterator[Check]:
    """Say what is wrong with each GPU; nothing of what the driver does not tell.

    The width and the speed of the PCIe link and the clocks are judged during a run: an
    idle GPU lowers them.
    """
    for gpu in machine.gpus:
        name, off = f"GPU {gpu.index}", f"sudo nvidia-smi -i {gpu.index} -c 0"
        if gpu.ecc_errors:
            text = f"{count(gpu.ecc_errors, 'error')} that could not be corrected"
            advice = (
                f"with nothing running on it: sudo nvidia-smi -i {gpu.index} --gpu-reset;"
                " if errors come back, replace the card"
            )
            since = f"{text} since the driver was loaded"
            yield Check(f"{name} memory", "problem", since, advice)
        if gpu.other_processes:
            busy, many = gpu.busy_before, gpu.other_processes
            text = "1 process has it open" if many == 1 else f"{many} processes have it open"
            text += "" if busy is None else f", busy {busy * 100:.0f} % of the time"
            if busy is not None and busy < BUSY:
                yield Check(f"{name} use", "ok", text)
            else:
                advice = "end them, or train on another GPU (CUDA_VISIBLE_DEVICES)"
                yield Check(f"{name} use", "warning", text, advice)
        held, total = gpu.memory_before, gpu.memory_total
        if held and total and not gpu.mig and held >= HELD * total:
            text = f"{size(total - held)} of {size(total)}: others hold the rest"
            advice = "end them (nvidia-smi lists them), or train on another GPU"
            yield Check(f"{name} free memory", "warning", text, advice)
        if gpu.compute_mode == "prohibited":
            yield Check(f"{name} mode", "problem", "prohibited: no program can use it", off)
        if gpu.compute_mode == "exclusive":
            text = "exclusive: one program at a time, so that trials run one after another"
            yield Check(f"{name} mode", "warning", text, off)


def check_instance(machine: Machine) -> Check:
    """Say which AWS instance this is, and whether its GPUs can be seen."""
    instance, name, reason = machine.instance, "AWS instance", machine.instance_reason
    if instance is None:
        text = f"{reason[:1].upper()}{reason[1:]}"
        return Check(name, "ok" if reason == NOT_AWS else "unknown", text)
    text = f"{instance.name}, {instance.zone or instance.region or 'region not known'}"
    if instance.source:
        text += f" (told by {instance.source})"
    seen, has = len(machine.gpus), instance.type.gpus if instance.type is not None else 0
    if 0 < seen < has:
        text += f"; {seen} of its {has} GPUs can be seen here"
        advice = "give the container all of them, or take a smaller instance"
        return Check(name, "warning", text, advice)
    return Check(name, "ok", text)


def check_visible_devices(environment: Mapping[str, str]) -> tuple[Check, ...]:
    """Warn where CUDA_VISIBLE_DEVICES hides every GPU; nothing where it is not set."""
    name = "CUDA_VISIBLE_DEVICES"
    value = environment.get(name)
    if value is None:
        return ()
    if value.strip() in ("", "-1", "none", "NoDevFiles"):
        text = f"is set to {value!r}, which hides every GPU from the frameworks"
        return (Check(name, "warning", text, "unset it to train on a GPU"),)
    return (Check(name, "ok", value),)


def check_cores(machine: Machine) -> Check:
    """Compare the cores that are visible with those that may be used."""
    visible, cores = machine.visible_cores, machine.cores
    if cores >= visible:
        return Check("CPU cores", "ok", f"{visible}, all usable ({machine.cpu_model})")
    limits = []
    if machine.affinity_cores < visible:
        limits.append(f"the affinity mask allows {machine.affinity_cores}")
    if machine.quota_cores is not None and machine.quota_cores < visible:
        limits.append(f"the cgroup quota is {machine.quota_cores:g}")
    return Check(
        "CPU cores",
        "warning",
        f"{visible} visible, {cores:g} usable: {' and '.join(limits)} ({machine.cpu_model})",
        f"size thread pools and loader workers for {_whole(cores)}, not by os.cpu_count()",
    )


def check_omp(machine: Machine, environment: Mapping[str, str]) -> Check:
    """Compare OMP_NUM_THREADS with the cores that may be used."""
    name, cores = "OMP_NUM_THREADS", _whole(machine.cores)
    value = environment.get(name)
    first = (value or "").partition(",")[0].strip()
    threads = int(first) if first.isdigit() else 0
    usable = f"{machine.cores:g} usable cores"
    if value is None:
        # OpenMP and TensorFlow count the affinity mask; nothing counts the quota.
        if machine.affinity_cores <= cores:
            return Check(name, "ok", "not set: libraries use every core they may")
        text = f"not set: libraries start {machine.affinity_cores} threads on {usable}"
    elif not threads:
        text = f"is {value!r}, not a number"
    elif threads > cores:
        text = f"is {threads}, more than the {usable}"
    elif threads == 1 < cores:
        text = f"is 1, with {usable} (torchrun and some containers set this)"
    else:
        return Check(name, "ok", f"{threads}, with {usable}")
    return Check(name, "warning", text, f"for one process here: export OMP_NUM_THREADS={cores}")


def check_memory(machine: Machine) -> Check:
    """Say how much memory may be used, and how much is left."""
    limit, available = machine.memory_limit, machine.memory_available
    text = f"{size(limit)}, {size(available)} available"
    if limit < machine.memory_total:
        text += f" (cgroup limit; the machine has {size(machine.memory_total)})"
    if available < MEMORY_LOW * limit:
        return Check("Memory", "warning", text, "end other programs, or take smaller batches")
    return Check("Memory", "ok", text)


def check_shm(machine: Machine, torch: bool) -> Check:
    """Say whether /dev/shm can carry the batches of loader workers."""
    name, total, free = "/dev/shm", machine.shm_total, machine.shm_free
    if total is None or free is None:
        return Check(name, "unknown", "cannot be read: is it mounted?")
    if total <= SHM_DOCKER_DEFAULT:
        text = (
            f"{size(total)}: too small for PyTorch DataLoader workers, which die with a bus error"
        )
        advice = "start the container with --shm-size=8g or --ipc=host"
        return Check(name, "problem" if torch else "warning", text, advice)
    text = f"{size(total)}, {size(free)} free"
    if free < MEMORY_LOW * total:
        return Check(name, "warning", text, "look for files that ended programs left there")
    return Check(name, "ok", text)


def _whole(cores: float) -> int:
    return max(1, math.floor(cores))
