"""Whether a framework build, the driver and the GPUs fit each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainperf.fixes.host.cards import version
from trainperf.machine.doctor.checks import Check
from trainperf.machine.doctor.frameworks import Build
from trainperf.model import Gpu, Machine
from trainperf.model.words import count

_INSTALL_GPU = {
    "TensorFlow": 'pip uninstall tensorflow-cpu, then pip install "tensorflow[and-cuda]"',
    "PyTorch": "install the PyTorch build for CUDA in place of the CPU one",
}


def check_fit(build: Build, machine: Machine) -> tuple[Check, ...]:
    """Say whether `build` can use the GPUs of `machine`; nothing where there are none."""
    if build.failure or not machine.gpus:
        return ()
    name = f"{build.name} and the GPU"
    if not build.built_with_gpu:
        return (
            Check(
                name,
                "problem",
                f"this {build.name} was built for the CPU only: the GPU stays idle",
                _INSTALL_GPU.get(build.name, ""),
            ),
        )
    checks = [
        check
        for check in (_cuda(name, build, machine), _generations(name, build, machine.gpus))
        if check is not None
    ]
    seen = _seen(name, build, machine)
    if seen.status != "ok" or not checks:
        checks.append(seen)
    return tuple(checks)


def _seen(name: str, build: Build, machine: Machine) -> Check:
    there, seen = len(machine.gpus), len(build.gpus)
    if seen == 0:
        return Check(
            name,
            "problem",
            f"{build.name} sees none of the {count(there, 'GPU')}",
            _why_none(build),
        )
    if seen < there:
        return Check(
            name,
            "warning",
            f"{build.name} sees {seen} of the {count(there, 'GPU')}",
            "look at CUDA_VISIBLE_DEVICES if all of them should be used",
        )
    return Check(name, "ok", f"{build.name} sees {count(seen, 'GPU')}")


_REASONS = (
    (
        # TensorFlow
        "Cannot dlopen some GPU libraries",
        'its CUDA libraries were not found: pip install "tensorflow[and-cuda]" brings them along',
    ),
    (
        "Could not find cuda drivers|Found no NVIDIA driver",
        (
            "libcuda.so.1, the driver's own library, is not found: in a container, start it"
            " with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        ),
    ),
    (
        # PyTorch, as are those below
        "NVIDIA driver on your system is too old",
        (
            "the driver is too old for it: update the NVIDIA driver, or install a PyTorch built for"
            " an older CUDA"
        ),
    ),
    (
        "Error 802|system not yet initialized",
        (
            "the GPUs are not ready (CUDA error 802): on machines with NVSwitch, start"
            " nvidia-fabricmanager in the version of the driver"
        ),
    ),
    (
        "Error 80[34]|forward compatibility was attempted|unsupported display driver",
        (
            "the CUDA libraries in front of the driver's own do not fit it (CUDA error 803 or 804):"
            " take the cuda-compat folder out of LD_LIBRARY_PATH, or update the driver"
        ),
    ),
    (
        "CUDA unknown error|CUDA driver initialization failed",
        "CUDA does not start: try nvidia-smi; after a suspend, reload the nvidia_uvm module",
    ),
)
"""Messages of the frameworks that find no GPU (as patterns), and the remedy for each."""


def _why_none(build: Build) -> str:
    for pattern, advice in _REASONS:
        if re.search(pattern, build.messages):
            return advice
    if "CUDA_ERROR" in build.messages:
        error = re.search(r"CUDA_ERROR_\w+", build.messages)
        return f"CUDA does not start ({error[0] if error else 'CUDA_ERROR'}): try nvidia-smi"
    if error := re.search(r"Error (\d+): ([^\n(]+)", build.messages):
        return f"CUDA does not start (error {error[1]}, {error[2].strip()}): try nvidia-smi"
    if build.name == "PyTorch" and build.cuda is None:
        return "it is built for AMD GPUs: install the PyTorch build for CUDA"
    return "look at CUDA_VISIBLE_DEVICES, and whether the CUDA libraries it was built for are there"


def _cuda(name: str, build: Build, machine: Machine) -> Check | None:
    """Compare the CUDA of the build with what the driver supports.

    A driver runs programs of its own CUDA major version and of older ones ("CUDA
    Compatibility" in NVIDIA's documentation).
    """
    needs, offers = version(build.cuda), version(machine.driver_cuda)
    if needs is None or offers is None or needs[0] <= offers[0]:
        return None
    return Check(
        name,
        "problem",
        f"{build.name} is built for CUDA {build.cuda}, and the driver supports CUDA"
        f" {machine.driver_cuda} at most",
        f"update the NVIDIA driver, or install a {build.name} built for CUDA {offers[0]}",
    )


def _generations(name: str, build: Build, gpus: tuple[Gpu, ...]) -> Check | None:
    held = ", ".join(build.capabilities)
    for gpu in gpus if held else ():
        if not _has_code(build.capabilities, gpu.compute_capability):
            return Check(
                name,
                "problem",
                f"{build.name} has no code for {gpu.name} (compute capability"
                f" {gpu.compute_capability}); it was built for {held}",
                f"install a {build.name} release that supports this GPU",
            )
    return None


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
