"""The examination behind `trainperf doctor`: whether machine, driver and frameworks fit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainperf.fixes.host.cards import version
from trainperf.machine import host, inspect_machine
from trainperf.machine.doctor import checks
from trainperf.machine.doctor.checks import Check, Checkup
from trainperf.machine.doctor.frameworks import Build, installed_builds
from trainperf.model import Machine
from trainperf.model.words import count
from trainperf.run.interpreter import Interpreter, interpreter_for

_INSTALL_GPU = {
    "TensorFlow": 'pip uninstall tensorflow-cpu, then pip install "tensorflow[and-cuda]"',
    "PyTorch": "install the PyTorch build for CUDA in place of the CPU one",
}

_REMEDIES = {
    # TensorFlow
    "Cannot dlopen some GPU libraries": "its CUDA libraries were not found: pip install "
    '"tensorflow[and-cuda]" brings them along',
    "Could not find cuda drivers|Found no NVIDIA driver": "libcuda.so.1, the driver's own library, "
    "is not found: in a container, start it with --gpus all and "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    # PyTorch
    "NVIDIA driver on your system is too old": "the driver is too old for it: update the NVIDIA "
    "driver, or install a PyTorch built for an older CUDA",
    "Error 802|system not yet initialized": "the GPUs are not ready (CUDA error 802): on machines "
    "with NVSwitch, start nvidia-fabricmanager in the version of the driver",
    "Error 80[34]|forward compatibility was attempted|unsupported display driver": "the CUDA "
    "libraries in front of the driver's own do not fit it (CUDA error 803 or 804): take the "
    "cuda-compat folder out of LD_LIBRARY_PATH, or update the driver",
    "CUDA unknown error|CUDA driver initialization failed": "CUDA does not start: try nvidia-smi; "
    "after a suspend, reload the nvidia_uvm module",
}
"""By messages of the frameworks that find no GPU (as patterns), what helps."""


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
    found = [
        Check("Python", "ok", f"scripts are run by {python.path}{why}"),
        *checks.check_gpus(machine, on_the_bus),
        *checks.check_gpu_health(machine),
        *checks.check_visible_devices(environment),
        checks.check_instance(machine),
        *(check for build in builds for check in (_installed(build), *check_fit(build, machine))),
    ]
    if not builds:
        text = f"{python.path} has neither TensorFlow nor PyTorch"
        advice = "activate the environment of your training, or name it: --python .venv"
        found.append(Check("Frameworks", "warning", text, advice))
    found += [
        checks.check_cores(machine),
        checks.check_omp(machine, environment),
        checks.check_memory(machine),
        checks.check_shm(machine, torch=any(build.name == "PyTorch" for build in builds)),
    ]
    return Checkup(machine, tuple(found))


def _installed(build: Build) -> Check:
    name, facts = build.name, [build.version]
    if build.failure:
        text = f"{build.version} is installed, but it cannot be imported: {build.failure}".strip()
        module = "torch" if name == "PyTorch" else "tensorflow"
        return Check(name, "problem", text, f"try: python -c 'import {module}'")
    if not build.built_with_gpu:
        return Check(name, "ok", f"{build.version}, built for the CPU only")
    facts.append(f"built with CUDA {build.cuda}" if build.cuda else "built for GPUs")
    facts += [f"cuDNN {build.cudnn}"] if build.cudnn else []
    facts += [f"for {', '.join(build.capabilities)}"] if build.capabilities else []
    return Check(name, "ok", ", ".join(facts))


def check_fit(build: Build, machine: Machine) -> tuple[Check, ...]:
    """Say whether `build` can use the GPUs of `machine`; nothing where there are none."""
    if build.failure or not machine.gpus:
        return ()
    name = f"{build.name} and the GPU"
    if not build.built_with_gpu:
        text = f"this {build.name} was built for the CPU only: the GPU stays idle"
        return (Check(name, "problem", text, _INSTALL_GPU[build.name]),)
    problems = [Check(name, "problem", *words) for words in _misfits(build, machine)]
    there, seen = count(len(machine.gpus), "GPU"), len(build.gpus)
    if not seen:
        text = f"{build.name} sees none of the {there}"
        return (*problems, Check(name, "problem", text, _why_none(build)))
    if seen < len(machine.gpus):
        text = f"{build.name} sees {seen} of the {there}"
        advice = "look at CUDA_VISIBLE_DEVICES if all of them should be used"
        return (*problems, Check(name, "warning", text, advice))
    return tuple(problems) or (Check(name, "ok", f"{build.name} sees {count(seen, 'GPU')}"),)


def _misfits(build: Build, machine: Machine) -> Iterator[tuple[str, str]]:
    """What of a build the driver or a GPU cannot run, and what helps.

    A driver runs programs of its own CUDA major version and of older ones ("CUDA
    Compatibility" in NVIDIA's documentation).
    """
    needs, offers = version(build.cuda), version(machine.driver_cuda)
    if needs is not None and offers is not None and needs[0] > offers[0]:
        text = f"{build.name} is built for CUDA {build.cuda}, and the driver supports CUDA"
        advice = f"update the NVIDIA driver, or install a {build.name} built for CUDA {offers[0]}"
        yield f"{text} {machine.driver_cuda} at most", advice
    for gpu in machine.gpus if build.capabilities else ():
        if not _has_code(build.capabilities, gpu.compute_capability):
            text = f"{build.name} has no code for {gpu.name} (compute capability"
            text += f" {gpu.compute_capability}); it was built for {', '.join(build.capabilities)}"
            yield text, f"install a {build.name} release that supports this GPU"
            return


def _why_none(build: Build) -> str:
    for pattern, advice in _REMEDIES.items():
        if re.search(pattern, build.messages):
            return advice
    if error := re.search(r"CUDA_ERROR_\w+|Error \d+: [^\n(]+", build.messages):
        return f"CUDA does not start ({error[0].strip()}): try nvidia-smi"
    if build.name == "PyTorch" and build.cuda is None:
        return "it is built for AMD GPUs: install the PyTorch build for CUDA"
    return "look at CUDA_VISIBLE_DEVICES, and whether the CUDA libraries it was built for are there"


def _has_code(capabilities: Sequence[str], capability: str | None) -> bool:
    """Whether a build has code for a GPU of this compute capability ("8.6"), or it is not known.

    `capabilities` are as the compiler names them: "sm_80" is machine code for 8.0, "compute_90"
    code that the driver compiles for 9.0 and later. Machine code runs on the same major
    generation with the same or a higher minor number, intermediate code on everything newer
    ("CUDA C++ Programming Guide", application compatibility). A suffix (sm_90a) ties code to
    exactly that generation.
    """
    has = version(capability)
    if has is None:
        return True
    for code in capabilities:
        parts = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", code)
        if parts is None:
            continue
        own = int(parts[2]), int(parts[3])
        later = own[0] == has[0] or parts[1] == "compute"
        if own == has or (own < has and later and not parts[4]):
            return True
    return False
