"""Flags of the whole PyTorch process, and where the user set them.

A flag that cannot be read (another version, no such device) is left out.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from ...process import frames
from .. import batches

RECENT = 2
"""A debug mode that was entered within so many updates is on, if only for part of a step."""


def watch_flags(loops: Any, module: Any) -> None:
    """Note where debug modes are turned on; `module` is `torch`, fully imported."""
    autograd = module.autograd

    def mode_on(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return _first(args[1:], kwargs)

    _note(loops, autograd.set_detect_anomaly, "__init__", "anomaly", mode_on)
    # Not their constructors: these warn, and name their caller's line in the warning.
    _note(loops, autograd.detect_anomaly, "__enter__", "anomaly", lambda *_: True)
    _note(loops, autograd.profiler.profile, "_start_trace", "profiler", lambda *_: True)
    _note(loops, module, "use_deterministic_algorithms", "deterministic", _first)


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the first argument, `mode`, turns something on."""
    return bool(args[0] if args else kwargs.get("mode"))


def _note(loops: Any, owner: Any, name: str, flag: str, turns_on: Callable[..., bool]) -> None:
    original = vars(owner).get(name)
    if original is None:
        return

    @functools.wraps(original)
    def noted(*args: Any, **kwargs: Any) -> Any:
        try:
            if loops.process.off:
                pass
            elif turns_on(args, kwargs):
                loops.flag_sites[flag] = frames.here(), loops.updates
            else:
                loops.flag_sites.pop(flag, None)
        except Exception as error:
            loops.process.failed(f"where {flag} is set", error)
        return original(*args, **kwargs)

    noted._trainperf_original = original  # type: ignore[attr-defined]
    setattr(owner, name, noted)


def record(driver: Any) -> None:
    """Record the flags as the event `torch_flags`."""
    driver.record.write("torch_flags", values=flags(driver))


def flags(driver: Any) -> dict[str, Any]:
    """All flags that can be read, by name, as `model.torch.step.Torch.flags` has them.

    `anomaly_where`, `deterministic_where` and `profiler_where` are the user's calls that
    turned these on, there only if they are on and the call was seen.
    """
    torch: Any = sys.modules["torch"]
    loops = driver.loops
    reads: dict[str, Callable[[], Any]] = {
        "matmul_precision": torch.get_float32_matmul_precision,
        "cudnn_benchmark": lambda: bool(torch.backends.cudnn.benchmark),
        "deterministic": lambda: (
            torch.are_deterministic_algorithms_enabled() or bool(torch.backends.cudnn.deterministic)
        ),
        "anomaly": lambda: torch.is_anomaly_enabled() or _recent(loops, "anomaly"),
        "profiler": lambda: torch.autograd._profiler_enabled() or _recent(loops, "profiler"),
        "launch_blocking": lambda: os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
        "threads": torch.get_num_threads,
        "omp_num_threads": _omp_num_threads,
        "alloc_conf": _alloc_conf,
        "bf16_cpu": lambda: _bf16_cpu(torch),
        "cpp_compiler": lambda: shutil.which(os.environ.get("CXX", "g++")) is not None,
        "float64_batch": lambda: _float64_batch(driver, torch),
    }
    found: dict[str, Any] = {}
    for name, read in reads.items():
        try:
            found[name] = read()
        except Exception:  # absent: what reads it abstains
            continue
    for name in ("anomaly", "deterministic", "profiler"):
        where, _ = loops.flag_sites.get(name, (None, 0))
        if found.get(name) and where is not None:
            found[f"{name}_where"] = where
    return found


def _recent(loops: Any, flag: str) -> bool:
    """Whether a mode is turned on anew in each step: `with detect_anomaly(): backward()`."""
    _, at = loops.flag_sites.get(flag, (None, None))
    return at is not None and at > 0 and loops.updates - at <= RECENT


def _omp_num_threads() -> int | None:
    value = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(value) if value.isdigit() else None


def _alloc_conf() -> str:
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _bf16_cpu(torch: Any) -> bool:
    """Whether the CPU has instructions that multiply bfloat16 (AVX512_BF16 or AMX)."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    there = [getattr(torch.cpu, name) for name in names if hasattr(torch.cpu, name)]
    if not there:
        raise NotImplementedError("this version cannot say")
    return any(bool(one()) for one in there)


def _float64_batch(driver: Any, torch: Any) -> bool:
    if driver.batch is None:
        raise LookupError("no batch was seen")
    return any(leaf.dtype == torch.float64 for leaf in batches.leaves(driver.batch))
