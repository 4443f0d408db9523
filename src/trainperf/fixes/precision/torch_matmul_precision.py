"""Matrix products in full float32 on a GPU that has TF32."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.common.step import PROBE_LEAST, bound_by, bound_if_saved, gpu_busy
from trainperf.fixes.common.words import ms, times, worth
from trainperf.fixes.torch_step._source import refuse_if_named
from trainperf.fixes.torch_step._step import (
    CONVOLUTIONS,
    DENSE,
    PROBED,
    count_of,
    kernel_seconds,
    pass_decides,
    process_site,
    taken_probe,
    to_try,
)
from trainperf.model import CudaDevice, Equivalence, Evidence, Finding, Probe
from trainperf.rewrite import Script

TF32_FROM = 8.0
"""Compute capability of Ampere, the first with TF32 in its tensor cores."""

BUSY = 0.50
"""Share of a step with kernels below which starting them, not running them, takes time."""


class MatmulPrecision(Fix):
    """Multiply float32 matrices in TF32: `torch.set_float32_matmul_precision("high")`.

    ## Why it is slow
    From Ampere on, tensor cores take float32 numbers with a shorter fraction (TF32), many
    times as fast as the other cores take whole ones. PyTorch uses that for convolutions,
    but by default ("highest") not for matrix products.

    ## What changes
    Matrix products round their factors to 10 bits of fraction instead of 23, and sum in
    float32. Weights and activations stay float32. Losses differ by rounding.

    ## When not to
    - Where a network is part of a calculation that needs all digits (solvers, physics).
    - Under autocast products are in 16 bits already, and gain nothing.
    """

    category = "model"
    usual = 1.2
    probed_by = "matmul_precision"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether what the pass gives is what the step gives."""
        return pass_decides(evidence, made)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find float32 matrix products on a GPU with TF32 that keep it busy."""
        if not _applies(evidence):
            return None
        gpu = evidence.device.first
        measured = taken_probe(evidence, "matmul_precision")
        if measured is not None:
            if measured.low < PROBE_LEAST:
                return None
            bound, basis = bound_by(evidence, measured), PROBED
            seen = (
                f'With "high" the same computation ran {times(measured.ratio)} as fast '
                f"({ms(measured.base_s)} → {ms(measured.candidate_s)})."
            )
        else:
            ratio, busy = tf32_ratio(gpu), gpu_busy(evidence)
            if ratio is None or (busy is not None and busy < BUSY):
                return None
            saved = kernel_seconds(evidence) * (1 - 1 / ratio)
            bound = min(ratio, bound_if_saved(evidence, saved))
            basis = "forward and backward at peak TF32 over peak float32 of this GPU"
            seen = f"Its peak in TF32 is {times(ratio)} that in float32."
        return self._finding(evidence, bound, basis, seen) if worth(evidence, bound) else None

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it for any model that multiplies float32 matrices, convolutions or not."""
        if not _has_tf32(evidence) or not count_of(evidence.torch.model, DENSE):
            return None
        return self._finding(evidence, *to_try(evidence, "matmul_precision"))

    def _finding(
        self, evidence: Evidence, bound: float | None, basis: str, seen: str = ""
    ) -> Finding:
        model, gpu, where = evidence.torch.model, evidence.device.first, process_site(evidence)
        return self.finding(
            title="Matrix products run in full float32 on a GPU with TF32",
            text=f'{model.cls} is float32, its matrix products run with precision "highest" on '
            f"{gpu.name} (compute capability {gpu.compute_capability}). {seen}".strip(),
            bound=bound,
            bound_basis=basis,
            where=(where,) if where else (),
            advice="Allow TF32 before the first step.",
            snippet='torch.set_float32_matmul_precision("high")',
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the precision after the imports."""
        file = finding.where[0].file
        for name in ("set_float32_matmul_precision", "allow_tf32", "fp32_precision"):
            refuse_if_named(script, file, name)
        torch = script.module_name(file, "torch")
        script.insert_after_imports(file, f'{torch}.set_float32_matmul_precision("high")')


def tf32_ratio(gpu: CudaDevice) -> float | None:
    """Return peak TF32 over peak float32 rate, None if it is not known."""
    row = peaks(gpu.name)
    if row is None or not row["tf32_tflops"] or not row["fp32_tflops"]:
        return None
    return float(row["tf32_tflops"]) / float(row["fp32_tflops"])


def _applies(evidence: Evidence) -> bool:
    """Whether float32 products, not convolutions, are what a GPU with TF32 computes."""
    model = evidence.torch.model
    return _has_tf32(evidence) and count_of(model, DENSE) > count_of(model, CONVOLUTIONS)


def _has_tf32(evidence: Evidence) -> bool:
    """Whether a GPU with TF32 runs a float32 model without it."""
    if evidence.device.kind != "GPU":
        return False
    known = capability(evidence.device.first)
    torch = evidence.torch
    if known is None or known < TF32_FROM or torch.flag("matmul_precision") != "highest":
        return False
    return "float32" in torch.model.dtypes and not (torch.calls and torch.calls.autocast)


TENSOR_CORE_RATIO = 2.0
"""16-bit over TF32 matmul rate on tensor cores, compute capability 8.0 and later.

Every such row of the table has it (35/70, 156/312, 494.7/989.4 TFLOP/s), and memory
traffic halves as well.
"""


def capability(gpu: CudaDevice) -> float | None:
    """Return the compute capability as a number (8.6), or None if it is not known."""
    try:
        return float(gpu.compute_capability or "")
    except ValueError:
        return None


def sixteen_bit_ratio(gpu: CudaDevice) -> float | None:
    """Return peak 16-bit over peak float32 rate, or None if it is not known.

    TensorFlow computes float32 products in TF32 where the GPU has it (from compute
    capability 8.0), so that is what 16 bits are compared with.
    """
    row = peaks(gpu.name)
    if row is not None:
        fast = row["bf16_tensor_tflops"] or row["fp16_tensor_tflops"]
        slow = row["tf32_tflops"] or row["fp32_tflops"]
        if fast and slow:
            return max(float(fast) / float(slow), TENSOR_CORE_RATIO)
    known = capability(gpu)
    return TENSOR_CORE_RATIO if known is not None and known >= 8.0 else None


def peaks(name: str) -> dict[str, Any] | None:
    """Return the row of the GPU that NVML or CUDA calls `name`, or None if it is not listed.

    The longest matching name wins, in whole words: an "L40S" is no "L4".
    """
    found = [
        (len(part), row)
        for row in _table().values()
        for part in row["nvml_name_contains"]
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(part)}(?![A-Za-z0-9])", name)
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = files("trainperf").joinpath("data/gpu_peaks.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, Any]] = json.loads(text)["gpus"]
    return table
