"""GPUs that the framework does not use, or not as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Unpriced
from trainperf.fixes.common._environment import EnvironmentFix
from trainperf.model import Equivalence, Evidence

NO_STEP = Unpriced("not measured: no step ran on the GPU")


class GpuBuild(EnvironmentFix):
    """Install the build of the framework that fits the driver and the GPU, and let it start.

    ## Why it is slow
    A build without CUDA, or one for a newer CUDA than the driver supports, computes on the CPU
    while the GPU stands idle; so does one whose CUDA does not start. A build without machine code
    for the GPU has the driver compile it at the first start, for minutes.

    ## What changes
    Another build of the same release, or a newer driver. Rounding differs from the CPU.

    ## When not to
    Where the CPU is used on purpose, as the model is small or the GPU is another job's.
    """

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a build that leaves the GPU idle, or has no machine code for it."""
        framework, machine = evidence.framework, evidence.machine
        if evidence.device.kind == "GPU":
            return _compiled_at_start(evidence)
        if framework.name != "torch" or not machine.gpus:
            return None
        # A driver runs programs of its own CUDA major version and of older ones ("CUDA
        # Compatibility" in NVIDIA's documentation).
        cuda = _recorded_build(evidence).get("cuda")
        needs, offers = version(cuda), version(machine.driver_cuda)
        if framework.built_with_cuda is False:
            why = f"PyTorch {framework.version} was built without CUDA."
            advice = "Install the build of PyTorch with CUDA, in place of this one."
        elif needs and offers and needs[0] > offers[0]:
            why = f"PyTorch {framework.version} is built for CUDA {cuda}; the driver supports CUDA "
            why += f"{machine.driver_cuda} at most."
            advice = "Update the NVIDIA driver, or install a PyTorch built for an older CUDA."
        elif failure := evidence.facts.get("cuda_failed"):
            why = f"CUDA did not start: {str(failure).rstrip('.')}."
            advice = "Repair the driver, with `trainperf doctor` at hand; until then no script "
            advice += "can use the GPU."
        else:
            return None
        return Cause(
            title="PyTorch computes on the CPU although a GPU is there",
            text=f"The driver sees {machine.gpus[0].name}. {why}",
            saves=NO_STEP,
            advice=advice,
            snippet='python -c "import torch; print(torch.version.cuda, torch.cuda.is_available())"'
            "\nnvidia-smi",
        )


def _recorded_build(evidence: Evidence) -> dict[str, Any]:
    build = evidence.facts.get("gpu_build")
    return build if isinstance(build, dict) else {}


def _compiled_at_start(evidence: Evidence) -> Cause | None:
    """A note on code that the driver compiles when the program starts."""
    capabilities = _recorded_build(evidence).get("capabilities") or []
    for gpu in evidence.device.used:
        if fit(capabilities, gpu.compute_capability) != "compiled on the spot":
            continue
        name = "PyTorch" if evidence.framework.name == "torch" else "TensorFlow"
        return Cause(
            title=f"This {name} has no machine code for {gpu.name}",
            text=f"{name} {evidence.framework.version} was built for {', '.join(capabilities)}; "
            f"the GPU has compute capability {gpu.compute_capability}. The driver compiles the "
            "code at the first start, which can take minutes.",
            saves=Unpriced("none: it costs the first start, not a step"),
            advice="Keep the driver's cache between runs, or install a newer release.",
            snippet="export CUDA_CACHE_PATH=$HOME/.nv/ComputeCache\n"
            "export CUDA_CACHE_MAXSIZE=4294967296",
            category="practice",  # the GPU is used: it is no repair
        )
    return None


class GpuUnused(Fix):
    """Make TensorFlow use the GPU of this machine.

    ## Why it is slow
    The driver sees a GPU, but TensorFlow computes on the CPU: it is a build without CUDA, does
    not find the CUDA libraries, or the GPU is hidden from it. It says so only in its log.

    ## What changes
    The same script runs on the GPU. Rounding differs from the CPU.

    ## When not to
    Where the GPU is hidden on purpose (`CUDA_VISIBLE_DEVICES`, `set_visible_devices`) for another
    job, or the model is so small that the CPU is faster.
    """

    category = "environment"
    equivalence = Equivalence.ENVIRONMENT

    def look(self, evidence: Evidence) -> Cause | None:
        """Find GPUs that NVML sees while the framework computes on the CPU."""
        gpus, cuda = evidence.machine.gpus, evidence.framework.built_with_cuda
        if not gpus or evidence.device.kind != "CPU" or cuda is None:
            return None
        hidden = evidence.facts.get("cuda_visible_devices")
        if cuda is False:
            why = "This TensorFlow was built without CUDA."
            advice = "Install the build with CUDA, in place of tensorflow-cpu."
            snippet = 'pip uninstall -y tensorflow-cpu\npip install "tensorflow[and-cuda]"'
        elif isinstance(hidden, str) and hidden.strip() in ("", "-1"):
            why = f'CUDA_VISIBLE_DEVICES is "{hidden}", which hides every GPU.'
            advice = "Unset CUDA_VISIBLE_DEVICES, unless the GPU is meant for another job."
            snippet = "unset CUDA_VISIBLE_DEVICES"
        else:
            why = "Either its CUDA libraries are missing, or the script hides the GPU "
            why += "(set_visible_devices)."
            advice = "Install the CUDA libraries of this TensorFlow, and look at what trainperf "
            advice += "doctor says."
            snippet = 'pip install "tensorflow[and-cuda]"'
        count = f"{len(gpus)} × " if len(gpus) > 1 else ""
        return Cause(
            title="TensorFlow computes on the CPU although a GPU is there",
            text=f"The driver sees {count}{gpus[0].name}; TensorFlow "
            f"{evidence.framework.version} lists no GPU. {why}",
            saves=NO_STEP,
            advice=advice,
            snippet=snippet,
        )


Fit = Literal["native", "compiled on the spot", "none", "unknown"]


def fit(capabilities: Sequence[str], capability: str | None) -> Fit:
    """How a build's code runs on a GPU of this compute capability ("8.6").

    `capabilities` are as the compiler names them: "sm_80" is machine code for 8.0, "compute_90"
    code that the driver compiles for 9.0 and later. Machine code runs on the same major
    generation with the same or a higher minor number, intermediate code on everything newer
    ("CUDA C++ Programming Guide", application compatibility). A suffix (sm_90a) ties code to
    exactly that generation.
    """
    has = version(capability)
    if has is None or not capabilities:
        return "unknown"
    best: Fit = "none"
    for code in capabilities:
        parts = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", code)
        if parts is None:
            continue
        kind, major, minor, suffix = parts[1], int(parts[2]), int(parts[3]), parts[4]
        if suffix and (major, minor) != has:
            continue
        if kind == "sm" and major == has[0] and minor <= has[1]:
            return "native"
        if kind == "compute" and (major, minor) <= has:
            best = "compiled on the spot"
    return best


def version(text: str | None) -> tuple[int, int] | None:
    """Return the first two numbers of a version ("12.4" → 12, 4), None without any."""
    numbers = re.findall(r"\d+", text or "")
    return (int(numbers[0]), int([*numbers, "0"][1])) if numbers else None
