"""What faster products could give: by a probe of forward and backward, by peak rates of GPUs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from trainperf.fixes.cause import Saving
from trainperf.fixes.common.step import step_seconds
from trainperf.fixes.common.words import measured_or
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.model import CudaDevice, Device, Evidence

TENSOR_CORES_FROM = 7.0
"""Compute capability of Volta, the first with tensor cores (16-bit floats only)."""

AMPERE = 8.0
"""Compute capability of the first with bfloat16 and TF32 in its tensor cores."""

BUSY = 0.50
"""Share of a step with kernels below which starting them, not running them, takes time."""

TENSOR_CORE_RATIO = 2.0
"""16-bit over TF32 matmul rate on tensor cores, compute capability 8.0 and later.

Every such row of the table has it (35/70, 156/312, 494.7/989.4 TFLOP/s), and memory
traffic halves as well.
"""


@dataclass(frozen=True)
class OfPasses(Saving):
    """What all forwards and backwards of a step save if they shrink as the probed ones do.

    How long these take the split says; without it, the probe, times the backwards of a step.
    Nothing limits it where the probe was not made, or says nothing.
    """

    def bound(self, evidence: Evidence, *, by_probe: bool = True) -> float | None:
        """Return the speed-up of a step at most, None without the probe."""
        made, calls = self.probed(evidence), evidence.torch.calls
        if made is None or not by_probe:
            return None
        probed = made.base_s * max(1.0, calls.backwards if calls else 1.0)
        passes = measured_or(probed, lambda: compute_seconds(evidence))
        whole = replace(self, seconds=lambda: min(passes, step_seconds(evidence)))
        return super(OfPasses, whole).bound(evidence)


def sixteen_bits(device: Device) -> str:
    """Return the 16-bit type that a device multiplies fast, if any has; "" where none."""
    if device.kind == "CPU":
        return "bfloat16"
    known = capability(device.first) if device.kind == "GPU" else None
    if known is None or known < TENSOR_CORES_FROM:
        return ""
    return "bfloat16" if known >= AMPERE else "float16"


def capability(gpu: CudaDevice) -> float | None:
    """Return the compute capability as a number (8.6), or None if it is not known."""
    try:
        return float(gpu.compute_capability or "")
    except ValueError:
        return None


def ratio_of(gpu: CudaDevice, fast: tuple[str, ...], slow: tuple[str, ...]) -> float | None:
    """Return one peak rate over another, each the first that is known; None without one."""
    row = peaks(gpu.name) or {}
    above, below = (
        next((row[f"{kind}_tflops"] for kind in kinds if row.get(f"{kind}_tflops")), None)
        for kinds in (fast, slow)
    )
    return float(above) / float(below) if above and below else None


SIXTEEN = ("bf16_tensor", "fp16_tensor")


def sixteen_bit_ratio(gpu: CudaDevice) -> float | None:
    """Return peak 16-bit over peak float32 rate, or None if it is not known.

    TensorFlow computes float32 products in TF32 where the GPU has it (from compute
    capability 8.0), so that is what 16 bits are compared with.
    """
    ratio = ratio_of(gpu, SIXTEEN, ("tf32", "fp32"))
    if ratio is not None:
        return max(ratio, TENSOR_CORE_RATIO)
    return TENSOR_CORE_RATIO if (capability(gpu) or 0.0) >= AMPERE else None


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
