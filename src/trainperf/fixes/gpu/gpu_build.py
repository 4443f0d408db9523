"""A framework whose build does not fit the driver or the GPU."""

from __future__ import annotations

from dataclasses import replace

from trainperf.fixes import Fix
from trainperf.fixes.gpu._health import fit, version
from trainperf.model import Equivalence, Evidence, Finding


class GpuBuild(Fix):
    """Install the build of the framework that fits the driver and the GPU, and let it start.

    ## Why it is slow
    A build without CUDA, or one for a newer CUDA than the driver supports, computes on
    the CPU while the GPU stands idle; so does one whose CUDA does not start. A build
    without machine code for the GPU has the driver compile all of it at the first start,
    which can take minutes.

    ## What changes
    Another build of the same release, or a newer driver. Rounding differs from the CPU.

    ## When not to
    Where the CPU is used on purpose, as the model is small or the GPU is another job's.
    """

    framework = "any"
    category = "environment"
    equivalence = Equivalence.ENVIRONMENT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a build that leaves the GPU idle, or has no machine code for it."""
        if evidence.device.kind == "GPU":
            return self._compiled(evidence)
        if evidence.framework.name != "torch" or not evidence.machine.gpus:
            return None
        framework, gpu = evidence.framework, evidence.machine.gpus[0]
        if framework.built_with_cuda is False:
            why = f"PyTorch {framework.version} was built without CUDA."
            advice = "Install the build of PyTorch with CUDA, in place of this one."
        elif (told := evidence.facts.get("cuda_failed")) and self._too_new(evidence) is None:
            why = f"CUDA did not start: {str(told).rstrip('.')}."
            advice = "Repair the driver, with `trainperf doctor` at hand; until then no script "
            advice += "can use the GPU."
        elif (cuda := self._too_new(evidence)) is not None:
            why = (
                f"PyTorch {framework.version} is built for CUDA {cuda}; the driver supports CUDA "
                f"{evidence.machine.driver_cuda} at most."
            )
            advice = "Update the NVIDIA driver, or install a PyTorch built for an older CUDA."
        else:
            return None
        return self.finding(
            title="PyTorch computes on the CPU although a GPU is there",
            text=f"The driver sees {gpu.name}. {why}",
            bound=None,
            bound_basis="not measured: no step ran on the GPU",
            advice=advice,
            snippet='python -c "import torch; print(torch.version.cuda, torch.cuda.is_available())"'
            "\nnvidia-smi",
        )

    @staticmethod
    def _too_new(evidence: Evidence) -> str | None:
        """The CUDA of the build, where its major version is above the driver's.

        A driver runs programs of its own CUDA major version and of older ones ("CUDA
        Compatibility" in NVIDIA's documentation).
        """
        build = evidence.facts.get("gpu_build")
        cuda = build.get("cuda") if isinstance(build, dict) else None
        needs, offers = version(cuda), version(evidence.machine.driver_cuda)
        return cuda if needs and offers and needs[0] > offers[0] else None

    def _compiled(self, evidence: Evidence) -> Finding | None:
        """A note on code that the driver compiles when the program starts."""
        build = evidence.facts.get("gpu_build")
        held = build.get("capabilities") or [] if isinstance(build, dict) else []
        for gpu in evidence.device.used:
            if fit(held, gpu.compute_capability) != "compiled on the spot":
                continue
            name = "PyTorch" if evidence.framework.name == "torch" else "TensorFlow"
            found = self.finding(
                title=f"This {name} has no machine code for {gpu.name}",
                text=f"{name} {evidence.framework.version} was built for {', '.join(held)}; the "
                f"GPU has compute capability {gpu.compute_capability}. The driver compiles the "
                "code at the first start, which can take minutes.",
                bound=None,
                bound_basis="none: it costs the first start, not a step",
                advice="Keep the driver's cache between runs, or install a newer release.",
                snippet="export CUDA_CACHE_PATH=$HOME/.nv/ComputeCache\n"
                "export CUDA_CACHE_MAXSIZE=4294967296",
            )
            return replace(found, category="practice")  # the GPU is used: it is no repair
        return None
