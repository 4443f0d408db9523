"""The CUDA devices that a PyTorch process sees, and which of them it computes on."""

from __future__ import annotations

import sys
from typing import Any

from . import models

LEAST_HELD = 2**20
"""Bytes that tensors must have held on a device for it to count as used: a first matrix
product's workspace alone takes several times as much."""

FAILED = "CUDA initialization: "
"""How PyTorch's warning begins (c10/cuda/CUDAFunctions.cpp)."""


def seen(driver: Any) -> list[dict[str, Any]]:
    """All devices that CUDA shows to this process, each with whether it is `used`.

    None of it starts CUDA, and describing a device opens no context on it: a process that has
    not begun with CUDA may still fork its workers.
    """
    cuda: Any = sys.modules["torch"].cuda
    if not cuda.is_initialized():
        return []
    on = {*models.devices(driver), *_holding(cuda)}
    return [_described(cuda, index, index in on) for index in range(cuda.device_count())]


def failure() -> str | None:
    """Why CUDA did not start, where the script asked for it and was told in a warning.

    It then trains on the CPU, as most scripts do where `is_available()` is false. PyTorch warns
    from `torch.cuda`, and Python keeps there what it has shown.
    """
    told = vars(sys.modules["torch"].cuda).get("__warningregistry__") or {}
    for key in told:
        text = str(key[0]) if isinstance(key, tuple) else ""
        if text.startswith(FAILED):
            return " ".join(text.removeprefix(FAILED).partition("(Triggered")[0].split())
    return None


def used(driver: Any) -> list[int]:
    """The indices of the devices that this process computes on."""
    return [one["number"] for one in seen(driver) if one["used"]]


def unknown(index: int) -> dict[str, Any]:
    """A device that is used, and of which CUDA says no more."""
    asked = dict.fromkeys(("uuid", "memory", "capability"))
    return {"number": index, "name": "", "used": True, **asked}


def _holding(cuda: Any) -> list[int]:
    """The devices whose allocator gave out memory: tensors were on them, if only for a while."""
    opened = getattr(sys.modules["torch"]._C, "_cuda_hasPrimaryContext", None)
    if opened is None:
        return []
    peak = "allocated_bytes.all.peak"
    return [
        index
        for index in range(cuda.device_count())
        if opened(index) and cuda.memory_stats(index).get(peak, 0) >= LEAST_HELD
    ]


def _described(cuda: Any, index: int, is_used: bool) -> dict[str, Any]:
    """A device as CUDA describes it. Under MIG it is the slice, its memory included."""
    told = cuda.get_device_properties(index)
    uuid = getattr(told, "uuid", None)
    # ROCm's versions of its GPUs stand in the same fields, and say nothing of NVIDIA's.
    hip = getattr(sys.modules["torch"].version, "hip", None)
    return {
        "number": index,
        "name": str(told.name),
        "uuid": None if uuid is None else str(uuid),
        "memory": int(told.total_memory),
        "capability": None if hip else f"{told.major}.{told.minor}",
        "used": is_used,
    }
