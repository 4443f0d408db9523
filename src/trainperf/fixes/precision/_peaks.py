"""Peak arithmetic rates of GPUs, from `data/gpu_peaks.json`."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from trainperf.model import CudaDevice

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
