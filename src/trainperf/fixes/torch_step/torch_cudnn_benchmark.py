"""Convolutions whose cuDNN kernels are chosen by rule of thumb."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import PROBE_LEAST, bound_by, bound_if_saved
from trainperf.fixes.common.words import ms, times, worth
from trainperf.fixes.torch_step._source import refuse_if_named
from trainperf.fixes.torch_step._step import (
    CONVOLUTIONS,
    PROBED,
    count_of,
    kernel_seconds,
    pass_decides,
    process_site,
    taken_probe,
    to_try,
)
from trainperf.model import Equivalence, Evidence, Finding, Probe
from trainperf.rewrite import Script

MOST_OF_A_STEP = 0.5
"""Share of a step that kernels must take before trying others is proposed unmeasured."""


class CudnnBenchmark(Fix):
    """Let cuDNN time its convolution kernels and keep the fastest.

    ## Why it is slow
    cuDNN has several kernels for each convolution. By default it chooses one by rule of
    thumb, which need not be the fastest for these sizes on this GPU.

    ## What changes
    `torch.backends.cudnn.benchmark = True`: for each new shape all kernels are timed once,
    then the fastest is used. Another kernel rounds otherwise, and which one wins may
    change from run to run.

    ## When not to
    - Images of changing size: each new shape is timed anew, for a second or so.
    - When runs must repeat bit for bit.
    - When GPU memory is nearly full: some kernels need more work space.
    """

    category = "model"
    probed_by = "cudnn_benchmark"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether what the pass gives is what the step gives."""
        return pass_decides(evidence, made)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find convolutions of one shape on a GPU, with the timing of kernels left off."""
        if not _applies(evidence):
            return None
        measured = taken_probe(evidence, "cudnn_benchmark")
        if measured is not None:
            bound = bound_by(evidence, measured)
            if measured.low < PROBE_LEAST or not worth(evidence, bound):
                return None
            return self._finding(evidence, measured, bound, PROBED)
        kernels = kernel_seconds(evidence)
        large = kernels >= MOST_OF_A_STEP * evidence.times.real
        if not large or not worth(evidence, bound_if_saved(evidence, kernels)):
            return None
        return self._finding(evidence, None, None, "only trying tells what another kernel takes")

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it whatever share of a step the kernels take."""
        if not _applies(evidence):
            return None
        measured = taken_probe(evidence, "cudnn_benchmark")
        bound, basis = to_try(evidence, "cudnn_benchmark")
        return self._finding(evidence, None if bound is None else measured, bound, basis)

    def _finding(
        self, evidence: Evidence, measured: Probe | None, bound: float | None, basis: str
    ) -> Finding:
        model, where = evidence.torch.model, process_site(evidence)
        convolutions = count_of(model, CONVOLUTIONS)
        layers = "layer" if convolutions == 1 else "layers"
        seen = ""
        if measured is not None:
            seen = (
                f" With the fastest kernels, the same computation ran {times(measured.ratio)} as "
                f"fast ({ms(measured.base_s)} → {ms(measured.candidate_s)})."
            )
        return self.finding(
            title="cuDNN chooses its kernels by rule of thumb",
            text=f"All batches seen have one shape, {model.cls} has {convolutions} "
            f"convolution {layers}, and cudnn.benchmark is off.{seen}",
            bound=bound,
            bound_basis=basis,
            where=(where,) if where else (),
            advice="Set torch.backends.cudnn.benchmark = True before the first step.",
            snippet="torch.backends.cudnn.benchmark = True",
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the flag after the imports."""
        file = finding.where[0].file
        refuse_if_named(script, file, "cudnn.benchmark")
        torch = script.module_name(file, "torch")
        script.insert_after_imports(file, f"{torch}.backends.cudnn.benchmark = True")


def _applies(evidence: Evidence) -> bool:
    """Whether a GPU convolves batches of one shape with kernels chosen by rule."""
    torch = evidence.torch
    if evidence.device.kind != "GPU" or torch.model.shapes != 1:
        return False
    if torch.flag("cudnn_benchmark") is not False or torch.flag("deterministic"):
        return False
    return count_of(torch.model, CONVOLUTIONS) > 0
