"""A large matrix product that was timed on the GPU, against the GPU's peak."""

from __future__ import annotations

from trainperf.fixes.precision._peaks import peaks
from trainperf.model import Evidence

LOW = 0.60
"""Share of the peak below which a large product is slow; our choice.

Large square products reach 70 to 90 % of the dense peak on data-centre GPUs that run at
their full clock.
"""

_COLUMNS = {
    "float32": "fp32_tflops",
    "tf32": "tf32_tflops",
    "float16": "fp16_tensor_tflops",
    "bfloat16": "bf16_tensor_tflops",
}


def share_of_peak(evidence: Evidence) -> float | None:
    """Return what the measured product reached of the GPU's peak; None if it is not known."""
    found = evidence.facts.get("matmul")
    if not isinstance(found, dict):
        return None
    on = [gpu for gpu in evidence.device.used if gpu.number == found.get("device", 0)]
    row = peaks(on[0].name) if on and not on[0].mig else None  # a slice has a part of its peak
    column, flops = _COLUMNS.get(str(found.get("dtype"))), found.get("flops_s")
    if row is None or column is None or not row[column] or not isinstance(flops, (int, float)):
        return None
    return float(flops) / (float(row[column]) * 1e12)


def said(evidence: Evidence) -> str:
    """Say what a large product reached, after a blank; "" where it was not low, or not timed."""
    share = share_of_peak(evidence)
    if share is None or share >= LOW:
        return ""
    found = evidence.facts["matmul"]
    return (
        f" A large product in {found['dtype']} reaches {float(found['flops_s']) / 1e12:.1f} "
        f"TFLOP/s, {share * 100:.0f} % of the peak of this GPU."
    )
