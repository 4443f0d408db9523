"""Facts about a PyTorch loop, read once when all is timed: batch, device, models, flags."""

from __future__ import annotations

import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..process import frames
from ..process.patching import before
from ..process.process import Attempt
from . import batches, devices, trainers
from .built import models
from .exchange import exchange
from .loader import padding, settings

_RECENT = 2
"""A debug mode that was entered within so many updates is on, if only for part of a step."""

_LEAST_HELD = 2**20
"""Bytes that tensors must have held on a device for it to count as used: a first matrix
product's workspace alone takes several times as much. Where none held as many, the most do."""

_FAILED = "CUDA initialization: "
"""How PyTorch's warning begins (c10/cuda/CUDAFunctions.cpp)."""


def loop_facts(driver: Any) -> dict[str, Any]:
    """Size and kind of the batch, what feeds the loop, what makes the model parallel.

    `epoch_steps` counts batches. Without a loader the batch is what the model was
    called with last.
    """
    loader = driver.loader
    facts: dict[str, Any] = {
        "batches_per_step": getattr(driver, "batches_per_step", 1),
        "updates_per_step": getattr(driver, "updates_per_step", 1),
        "input_kind": "DataLoader" if loader is not None else "arrays in the loop",
        "replicas": 1,
        "strategy": models.strategy(driver.loops),
    }
    calls = list(driver.loops.models.calls.values())
    if driver.batch is not None:
        batch = padding.usual(driver.recent_batches() or [driver.batch], loader)
        size = padding.of_batch(batch, loader)
    else:
        batch = calls[-1].arguments if calls else None
        size = padding.of_call(calls[-1]) if calls else None
    leaves = list(batches.leaves(batch))
    if leaves:
        facts["batch_size"] = size
        facts["batch_bytes"] = batches.size_in_bytes(batch)
        facts["batch_parts"] = [str(leaf.dtype).removeprefix("torch.") for leaf in leaves]
        facts["batch_dtypes"] = sorted(set(facts["batch_parts"]))
    if loader is not None:
        facts["epoch_steps"] = driver.epoch_batches
        with suppress(TypeError, NotImplementedError):  # an iterable dataset without a length
            facts["epoch_steps"] = len(loader) or driver.epoch_batches
    return facts


def record(driver: Any) -> None:
    """Record what is known of device, models, optimizers, flags, exchange and CUDA's memory."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        driver.process.fact(name.lower(), os.environ.get(name))
    driver.process.fact("cuda_failed", gpu_failure())
    if (built_for := sys.modules["torch"].version.cuda) is not None:
        driver.process.fact("gpu_build", {"cuda": str(built_for)})
    for what, part in (
        ("the device", _framework),
        # Before one forward more is run, which could add to it.
        ("the GPUs' memory", devices.record_memory),
        ("models and optimizers", models.record),
        ("flags", lambda driver: driver.record.write("torch_flags", values=flags(driver))),
        ("the trainer", trainers.record),
        ("the exchange of gradients", exchange.record),
        ("samples and tokens", padding.record_tokens),
        ("padding", _padding),
    ):
        with Attempt(driver.process, f"facts about {what}"):
            part(driver)


def _padding(driver: Any) -> None:
    size = None if driver.loader is None else settings.batch_size(driver.loader)
    found = padding.padded(driver.recent_batches(), size)
    if found is not None:
        # A model may be made for batches of one shape only.
        with Attempt(driver.process, "the model on a batch without its padding"):
            calls = list(driver.loops.models.calls.values())
            found |= padding.without_padding(driver, calls)
        driver.record.write("padding", **found)


def _framework(driver: Any) -> None:
    torch: Any = sys.modules["torch"]
    seen: list[dict[str, Any]] = []
    with Attempt(driver.process, "facts about the GPUs"):
        seen = gpus_seen()
    keras: Any = sys.modules.get("keras")
    backend = getattr(keras, "backend", None)  # a folder of the user's may be named so
    on_torch = backend is not None and backend.backend() == "torch"
    driver.record.write(
        "framework",
        name="torch",
        version=str(torch.__version__),
        keras=str(keras.__version__) if on_torch else None,
        cuda=torch.version.cuda is not None,
        gpus=seen,
        logical=sum(gpu["used"] for gpu in seen) or 1,
    )


# Flags of the whole PyTorch process, and where the user set them.
#
# A flag that cannot be read (another version, no such device) is left out.


def watch_flags(loops: Any, module: Any) -> None:
    """Note where debug modes and threads are set; `module` is `torch`, fully imported."""

    def watch(owner: Any, name: str, flag: str, mode_at: int | None = None) -> None:
        """`mode_at` is the place of the argument that turns it on, None where the call does."""

        def note(*args: Any, **kwargs: Any) -> None:
            if mode_at is None or [*args[mode_at:], kwargs.get("mode")][0]:
                loops.flag_sites[flag] = frames.here(), loops.updates
            else:
                loops.flag_sites.pop(flag, None)

        if name in vars(owner):
            before(loops.process, owner, name, f"where {flag} is set", note)

    autograd = module.autograd
    watch(autograd.set_detect_anomaly, "__init__", "anomaly", 1)
    # Not their constructors: these warn, and name their caller's line in the warning.
    watch(autograd.detect_anomaly, "__enter__", "anomaly")
    watch(autograd.profiler.profile, "_start_trace", "profiler")
    watch(module, "use_deterministic_algorithms", "deterministic", 0)
    watch(module, "set_num_threads", "threads")


def flags(driver: Any) -> dict[str, Any]:
    """All flags that can be read, by name, as `model.torch.Torch.flags` has them.

    `anomaly_where`, `deterministic_where`, `profiler_where` and `threads_where` are the user's
    calls that turned these on, or set them, there only if they are on and the call was seen.
    """
    torch: Any = sys.modules["torch"]
    loops = driver.loops

    def recent(flag: str) -> bool:
        """Whether a mode is turned on anew in each step: `with detect_anomaly(): backward()`."""
        _, at = loops.flag_sites.get(flag, (None, 0))
        return bool(at > 0 and loops.updates - at <= _RECENT)

    threads = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    reads: dict[str, Callable[[], Any]] = {
        "matmul_precision": torch.get_float32_matmul_precision,
        "cudnn_benchmark": lambda: bool(torch.backends.cudnn.benchmark),
        "deterministic": lambda: (
            torch.are_deterministic_algorithms_enabled() or bool(torch.backends.cudnn.deterministic)
        ),
        "anomaly": lambda: torch.is_anomaly_enabled() or recent("anomaly"),
        "profiler": lambda: torch.autograd._profiler_enabled() or recent("profiler"),
        "launch_blocking": lambda: os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
        "threads": torch.get_num_threads,
        "omp_num_threads": lambda: int(threads) if threads.isdigit() else None,
        "bf16_cpu": lambda: bool(  # multiplies bfloat16 by itself
            torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        ),
        "cpp_compiler": lambda: shutil.which(os.environ.get("CXX", "g++")) is not None,
        "float64_batch": lambda: any(leaf.dtype == torch.float64 for leaf in leaves),
        "denormal": lambda: _denormal(driver, torch),
    }
    leaves = list(batches.leaves(driver.batch))
    if driver.batch is None:
        del reads["float64_batch"]
    found: dict[str, Any] = {}
    for name, read in reads.items():
        with suppress(Exception):  # absent: what reads it abstains
            found[name] = read()
    for name in ("anomaly", "deterministic", "profiler", "threads"):
        where, _ = loops.flag_sites.get(name, (None, 0))
        if found.get(name) and where is not None:
            found[f"{name}_where"] = where
    return found


def _denormal(driver: Any, torch: Any) -> dict[str, float]:
    """Shares of denormal numbers on the CPU in weights, gradients and an optimizer's state.

    Of each tensor some elements are looked at, evenly spaced. Where they are flushed already
    they compare as zeros. Tensors of other classes are left alone (one that is sharded would ask
    other ranks), as are float16 numbers, which are computed with as float32 ones.
    """
    types = (torch.float32, torch.float64, torch.bfloat16)
    found: defaultdict[str, float] = defaultdict(float)
    sizes: defaultdict[str, int] = defaultdict(int)
    for optimizer in driver.loops.optimizers:
        weights = models.parameters_of(optimizer)
        states = [state for state in optimizer.state.values() if isinstance(state, dict)]
        kinds = [("weights", weight) for weight in weights]
        kinds += [("gradients", weight.grad) for weight in weights]
        kinds += [("optimizer", value) for state in states for value in state.values()]
        for kind, tensor in kinds:
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.dtype not in types:
                continue
            plain = tensor.layout == torch.strided and tensor.device.type == "cpu"
            size = tensor.numel()
            if plain and size and (tensor.is_contiguous() or size <= _COPIED):
                some = tensor.detach().reshape(-1)[:: max(1, size // _LOOKED_AT)]
                small = (some != 0) & (some.abs() < torch.finfo(some.dtype).tiny)
                found[kind] += float(small.sum()) / some.numel() * size
                sizes[kind] += size
    return {kind: found[kind] / sizes[kind] for kind in sizes}


_LOOKED_AT = 2**16
"""Elements of a tensor that are looked at, at least, where it has as many."""
_COPIED = 2**22
"""Elements of a tensor up to which it is copied to be looked at, where it does not lie in order."""


def gpus_seen() -> list[dict[str, Any]]:
    """All devices that CUDA shows to this process, each with whether it is used.

    None of it starts CUDA, and describing a device opens no context on it: a process that has
    not begun with CUDA may still fork its workers.
    """
    cuda: Any = sys.modules["torch"].cuda
    if not cuda.is_initialized():
        return []
    opened, peak = sys.modules["torch"]._C._cuda_hasPrimaryContext, "allocated_bytes.all.peak"
    # ROCm's versions of its GPUs stand in the same fields, and say nothing of NVIDIA's.
    hip = sys.modules["torch"].version.hip
    found = []
    known = range(cuda.device_count())
    held = [cuda.memory_stats(index).get(peak, 0) if opened(index) else 0 for index in known]
    for index in known:
        device = cuda.get_device_properties(index)  # under MIG the slice, its memory included
        found.append(
            {
                "number": index,
                "name": str(device.name),
                "uuid": str(device.uuid),
                "memory": int(device.total_memory),
                "capability": None if hip else f"{device.major}.{device.minor}",
                # Its allocator gave out memory: it had tensors on it, if only for a while.
                "used": held[index] > 0 and held[index] >= min(_LEAST_HELD, max(held)),
            }
        )
    return found


def gpu_failure() -> str | None:
    """Why CUDA did not start, where the script asked for it and was told in a warning.

    It then trains on the CPU, as most scripts do where `is_available()` is false. PyTorch warns
    from `torch.cuda`, and Python keeps there what it has shown.
    """
    shown = vars(sys.modules["torch"].cuda).get("__warningregistry__") or {}
    for key in shown:
        text = str(key[0]) if isinstance(key, tuple) else ""
        if text.startswith(_FAILED):
            return " ".join(text.removeprefix(_FAILED).partition("(Triggered")[0].split())
    return None
