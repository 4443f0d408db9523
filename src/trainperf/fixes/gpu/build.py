"""GPUs that the framework does not use, or not as they are."""

from __future__ import annotations

import re

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Unpriced
from trainperf.model import Evidence


class GpuBuild(Fix):
    """Install the build of the framework that fits the driver and the GPU, and let it start.

    Why slow: A build without CUDA, or one for a newer CUDA than the driver supports, computes on
    the CPU while the GPU stands idle; so does one whose CUDA does not start, or from which the GPU
    is hidden.
    Changes: Another build of the same release, or a newer driver. Rounding differs from the CPU.
    When not: Where the CPU is used on purpose, as the model is small or the GPU is another job's.
    """

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a build that leaves the GPU idle."""
        framework, gpus = evidence.framework, evidence.machine.gpus
        torch = framework.name == "torch"
        idle = gpus and evidence.device.kind != "GPU"
        found = (_why_torch if torch else _why_tensorflow)(evidence) if idle else None
        if found is None:
            return None
        name, (why, advice) = "PyTorch" if torch else "TensorFlow", found
        return Cause(
            title=f"{name} computes on the CPU although a GPU is there",
            text=f"The driver sees {gpus[0].name}. {why}",
            saves=Unpriced("not measured: no step ran on the GPU"),
            advice=advice,
            snippet='python -c "import torch; print(torch.version.cuda, torch.cuda.is_available())"'
            "\nnvidia-smi"
            if torch
            else 'pip install "tensorflow[and-cuda]"\nnvidia-smi',
        )


def _why_torch(evidence: Evidence) -> tuple[str, str] | None:
    """Why PyTorch does not use the GPU, and what to do; None where that is not known."""
    framework, driver_cuda = evidence.framework, evidence.machine.driver_cuda
    # A driver runs programs of its own CUDA major version and of older ones ("CUDA
    # Compatibility" in NVIDIA's documentation).
    build = evidence.facts.get("gpu_build")
    cuda = build.get("cuda") if isinstance(build, dict) else None
    needs, offers = version(cuda), version(driver_cuda)
    if framework.built_with_cuda is False:
        return (
            f"PyTorch {framework.version} was built without CUDA.",
            "Install the build of PyTorch with CUDA, in place of this one.",
        )
    if needs and offers and needs[0] > offers[0]:
        return (
            f"This PyTorch is built for CUDA {cuda}; the driver supports {driver_cuda} at most.",
            "Update the NVIDIA driver, or install a PyTorch built for an older CUDA.",
        )
    if failure := evidence.facts.get("cuda_failed"):
        return (
            f"CUDA did not start: {str(failure).rstrip('.')}.",
            "Repair the driver, with `trainperf doctor` at hand: no script can use the GPU so.",
        )
    return None


def _why_tensorflow(evidence: Evidence) -> tuple[str, str] | None:
    """The same of TensorFlow, which says it only in its log."""
    framework, hidden = evidence.framework, evidence.facts.get("cuda_visible_devices")
    if framework.built_with_cuda is None:
        return None
    if not framework.built_with_cuda:
        return (
            "This TensorFlow was built without CUDA.",
            "Install the build with CUDA, in place of tensorflow-cpu.",
        )
    if isinstance(hidden, str) and hidden.strip() in ("", "-1"):
        return (
            f'CUDA_VISIBLE_DEVICES is "{hidden}", which hides every GPU.',
            "Unset CUDA_VISIBLE_DEVICES, unless the GPU is meant for another job.",
        )
    return (
        "Its CUDA libraries are missing, or the script hides the GPU (set_visible_devices).",
        "Install the CUDA libraries of this TensorFlow, and look at what trainperf doctor says.",
    )


def version(text: str | None) -> tuple[int, int] | None:
    """Return the first two numbers of a version ("12.4" → 12, 4), None without any."""
    numbers = re.findall(r"\d+", text or "")
    return (int(numbers[0]), int([*numbers, "0"][1])) if numbers else None
