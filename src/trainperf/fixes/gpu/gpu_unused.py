"""A GPU that is there and that TensorFlow does not use."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.model import Equivalence, Evidence, Finding

HIDDEN = ("", "-1")
"""Values of CUDA_VISIBLE_DEVICES that show no GPU at all."""


class UseTheGpu(Fix):
    """Make TensorFlow use the GPU of this machine.

    ## Why it is slow
    The driver sees a GPU, but TensorFlow computes on the CPU: it is a build without
    CUDA, it does not find the CUDA libraries, or the GPU is hidden from it. It says so
    only in its log.

    ## What changes
    The same script runs on the GPU. Rounding differs from the CPU.

    ## When not to
    - The GPU is hidden on purpose (`CUDA_VISIBLE_DEVICES`, `set_visible_devices`),
      because another job uses it.
    - Very small models can be faster on the CPU.
    """

    category = "environment"
    equivalence = Equivalence.ENVIRONMENT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find GPUs that NVML sees while the framework computes on the CPU."""
        gpus = evidence.machine.gpus
        known = evidence.framework.built_with_cuda is not None
        if not gpus or evidence.device.kind != "CPU" or not known:
            return None
        why, advice, snippet = _reason(evidence)
        count = f"{len(gpus)} × " if len(gpus) > 1 else ""
        return self.finding(
            title="TensorFlow computes on the CPU although a GPU is there",
            text=f"The driver sees {count}{gpus[0].name}; TensorFlow "
            f"{evidence.framework.version} lists no GPU. {why}",
            bound=None,
            bound_basis="not measured: no step ran on the GPU",
            advice=advice,
            snippet=snippet,
        )


def _reason(evidence: Evidence) -> tuple[str, str, str]:
    """Why the GPU is not used, what to do, and the command; most certain reason first."""
    if evidence.framework.built_with_cuda is False:
        return (
            "This TensorFlow was built without CUDA.",
            "Install the build with CUDA, in place of tensorflow-cpu.",
            'pip uninstall -y tensorflow-cpu\npip install "tensorflow[and-cuda]"',
        )
    hidden = evidence.facts.get("cuda_visible_devices")
    if isinstance(hidden, str) and hidden.strip() in HIDDEN:
        return (
            f'CUDA_VISIBLE_DEVICES is "{hidden}", which hides every GPU.',
            "Unset CUDA_VISIBLE_DEVICES, unless the GPU is meant for another job.",
            "unset CUDA_VISIBLE_DEVICES",
        )
    return (
        "Either its CUDA libraries are missing, or the script hides the GPU (set_visible_devices).",
        "Install the CUDA libraries of this TensorFlow, and look at what trainperf doctor says.",
        'pip install "tensorflow[and-cuda]"',
    )
