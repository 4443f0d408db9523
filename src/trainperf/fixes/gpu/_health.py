"""The GPUs a run computes on, and what was seen of their clocks and their link."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from trainperf.errors import NotMeasured
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.precision._peaks import peaks
from trainperf.model import Evidence, Gpu, is_taken

LEAST_SAMPLES = 3
"""Samples that a phase must have for its mean clock to be worth a word; our choice."""

_LOW = 0.60
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


def used(evidence: Evidence) -> list[tuple[Gpu, dict[str, Any]]]:
    """Return the GPUs the run computes on, each with its use while the step ran alone.

    Raises `NotMeasured` where the run is not on a GPU, or it is not known on which.
    """
    seen = {gpu["index"]: gpu for gpu in _phase(evidence)}
    there = [(gpu, seen[gpu.index]) for gpu in on_used(evidence) if gpu.index in seen]
    if not there:
        raise NotMeasured("the GPU was not sampled")
    return there


def on_used(evidence: Evidence) -> list[Gpu]:
    """Return the GPUs the run computes on, all ranks' on this host, sampled or not.

    Raises `NotMeasured` where it is not on a GPU, or it is not known on which.
    """
    if evidence.device.kind != "GPU":
        raise NotMeasured("the script does not compute on a GPU")
    indices = {gpu.index for gpu in evidence.device.used}
    if None in indices:
        raise NotMeasured("which of the GPUs the script uses is not known")
    indices.update(evidence.device.of_others)
    return [gpu for gpu in evidence.machine.gpus if gpu.index in indices]


def clock(gpu: Gpu, use: dict[str, Any]) -> tuple[float, int]:
    """Return the mean clock of the SMs and their highest, MHz; raises `NotMeasured`."""
    now, most = use.get("sm_clock_mhz"), gpu.max_sm_clock_mhz
    if now is None or not most or use.get("samples", LEAST_SAMPLES) < LEAST_SAMPLES:
        raise NotMeasured("the driver does not tell the clock, or hardly was asked")
    return float(now), most


def bound_at_full_clock(evidence: Evidence, now: float, most: float) -> float:
    """Upper bound of the speed-up if the step ran at `most` MHz in place of `now`.

    A kernel's time goes with the clock at best; the memory's clock is another one.
    Raises `NotMeasured` without a real time.
    """
    times = evidence.times
    step = times.resident if is_taken(times.resident_) else times.real
    return bound_if_saved(evidence, step * max(0.0, 1 - now / most))


def card(gpu: Gpu) -> str:
    """Name a GPU: "GPU 0 (NVIDIA A10G)"."""
    return f"GPU {gpu.index} ({gpu.name})"


def _phase(evidence: Evidence) -> tuple[dict[str, Any], ...]:
    try:
        return evidence.phase("resident").gpu
    except NotMeasured:
        return evidence.phase("real").gpu


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
    if share is None or share >= _LOW:
        return ""
    found = evidence.facts["matmul"]
    return (
        f" A large product in {found['dtype']} reaches {float(found['flops_s']) / 1e12:.1f} "
        f"TFLOP/s, {share * 100:.0f} % of the peak of this GPU."
    )


Fit = Literal["native", "compiled on the spot", "none", "unknown"]


def fit(capabilities: Sequence[str], capability: str | None) -> Fit:
    """How a build's code runs on a GPU of this compute capability ("8.6").

    `capabilities` are as the compiler names them: "sm_80" is machine code for 8.0,
    "compute_90" code that the driver compiles for 9.0 and later. Machine code runs on
    the same major generation with the same or a higher minor number, intermediate code
    on everything newer ("CUDA C++ Programming Guide", application compatibility). A
    suffix (sm_90a) ties code to exactly that generation.
    """
    has = version(capability)
    if has is None or not capabilities:
        return "unknown"
    best: Fit = "none"
    for held in capabilities:
        parts = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", held)
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
