"""The examination behind `trainperf doctor`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trainperf.machine import host, inspect_machine
from trainperf.machine.doctor import checks
from trainperf.machine.doctor.checks import Check, Checkup
from trainperf.machine.doctor.compatibility import check_fit
from trainperf.machine.doctor.frameworks import Build, installed_builds
from trainperf.machine.instance import NOT_AWS
from trainperf.model import Gpu, Machine
from trainperf.model.words import count, size
from trainperf.run.interpreter import Interpreter, interpreter_for

_HELD = 0.25
"""Share of a GPU's memory in use from which a training may lack it; our choice."""

_BUSY = 0.05
"""Share of the time from which others keep a GPU busy; below, they only hold memory."""


def examine(given: Path | None = None) -> Checkup:
    """Look at this machine, and at the frameworks of the Python that runs scripts here.

    That is the one that was `given`, or its environment. Each framework is imported in a process of
    its own. Works without a GPU, and says so.
    """
    python, _ = interpreter_for(None, given, Path.cwd(), os.environ)
    return conclude(
        inspect_machine(),
        python,
        builds=installed_builds(python=python.path),
        on_the_bus=host.nvidia_on_the_bus(),
        environment=os.environ,
    )


def conclude(
    machine: Machine,
    python: Interpreter,
    builds: tuple[Build, ...],
    on_the_bus: int,
    environment: Mapping[str, str],
) -> Checkup:
    """Return the checks that follow from what was found; pure."""
    why = f": {python.why}" if python.why else ""
    found: list[Check] = [
        Check("Python", "ok", f"scripts are run by {python.path}{why}"),
        *checks.check_gpus(machine, on_the_bus),
        *check_gpu_health(machine),
        *checks.check_visible_devices(environment),
        check_instance(machine),
        *([Check("Container", "ok", machine.container)] if machine.container else []),
    ]
    for build in builds:
        found.extend((_installed(build), *_twice(build), *check_fit(build, machine)))
    if not builds:
        found.append(
            Check(
                "Frameworks",
                "warning",
                f"{python.path} has neither TensorFlow nor PyTorch",
                "activate the environment of your training, or name it: --python .venv",
            )
        )
    found.extend(
        (
            checks.check_cores(machine),
            checks.check_omp(machine, environment),
            checks.check_memory(machine),
            checks.check_shm(machine, torch=any(build.name == "PyTorch" for build in builds)),
        )
    )
    return Checkup(machine, tuple(found))


def _installed(build: Build) -> Check:
    if build.failure:
        return Check(
            build.name,
            "problem",
            f"{build.version} is installed, but it cannot be imported: {build.failure}".strip(),
            f"try: python -c 'import {'torch' if build.name == 'PyTorch' else 'tensorflow'}'",
        )
    if not build.built_with_gpu:
        return Check(build.name, "ok", f"{build.version}, built for the CPU only")
    facts = [build.version]
    facts.append(f"built with CUDA {build.cuda}" if build.cuda else "built for GPUs")
    if build.cudnn:
        facts.append(f"cuDNN {build.cudnn}")
    if build.capabilities:
        facts.append(f"for {', '.join(build.capabilities)}")
    return Check(build.name, "ok", ", ".join(facts))


def _twice(build: Build) -> tuple[Check, ...]:
    if len(build.packages) < 2:
        return ()
    names = " and ".join(build.packages)
    return (
        Check(
            build.name,
            "warning",
            f"{names} are both installed: they share one folder, and the last one installed won",
            f"uninstall both, then install the one that is wanted ({build.packages[0]})",
        ),
    )


def check_gpu_health(machine: Machine) -> tuple[Check, ...]:
    """Say what is wrong with each GPU; nothing of what the driver does not tell.

    The width and the speed of the PCIe link and the clocks are judged during a run: an
    idle GPU lowers them.
    """
    return tuple(
        check
        for gpu in machine.gpus
        for check in (_ecc(gpu), _others(gpu), _full(gpu), _mode(gpu))
        if check is not None
    )


def _ecc(gpu: Gpu) -> Check | None:
    if not gpu.ecc_errors:
        return None
    return Check(
        f"GPU {gpu.index} memory",
        "problem",
        f"{count(gpu.ecc_errors, 'error')} that could not be corrected since the driver was loaded",
        f"with nothing running on it: sudo nvidia-smi -i {gpu.index} --gpu-reset;"
        " if errors come back, replace the card",
    )


def _others(gpu: Gpu) -> Check | None:
    if not gpu.other_processes:
        return None
    who = "1 process has" if gpu.other_processes == 1 else f"{gpu.other_processes} processes have"
    busy = "" if gpu.busy_before is None else f", busy {gpu.busy_before * 100:.0f} % of the time"
    idle = gpu.busy_before is not None and gpu.busy_before < _BUSY
    return Check(
        f"GPU {gpu.index} use",
        "ok" if idle else "warning",
        f"{who} it open{busy}",
        "" if idle else "end them, or train on another GPU (CUDA_VISIBLE_DEVICES)",
    )


def _full(gpu: Gpu) -> Check | None:
    held, total = gpu.memory_before, gpu.memory_total
    if gpu.mig or not held or not total or held < _HELD * total:
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


def check_instance(machine: Machine) -> Check:
    """Say which AWS instance this is, and whether its GPUs can be seen."""
    instance, name = machine.instance, "AWS instance"
    if instance is None:
        reason = machine.instance_reason
        text = f"{reason[:1].upper()}{reason[1:]}"
        return Check(name, "ok" if reason == NOT_AWS else "unknown", text)
    text = f"{instance.name}, {instance.zone or instance.region or 'region not known'}"
    if instance.source:
        text += f" (told by {instance.source})"
    seen, has = len(machine.gpus), instance.type.gpus if instance.type is not None else 0
    if 0 < seen < has:
        return Check(
            name,
            "warning",
            f"{text}; {seen} of its {has} GPUs can be seen here",
            "give the container all of them, or take a smaller instance",
        )
    return Check(name, "ok", text)
