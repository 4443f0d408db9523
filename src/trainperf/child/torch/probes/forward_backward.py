"""Probe the forward and backward of a model: other precisions, memory formats, compiled."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from ...timing.budget import Budget
from .. import batches, memory
from .passes import NotNeeded, NotOffered, Pass
from .probing import Probing

COMPILE_S = 60.0
"""Compiling took 10 to 60 s on a CPU, and cannot be interrupted."""

CACHE = "TORCHINDUCTOR_CACHE_DIR"


def autocast(probing: Probing) -> None:
    """The pass in bfloat16 where PyTorch holds that safe; float16 on older GPUs."""
    import torch

    found = probing.training_pass()
    if found.autocast or _region_now(found.device):
        raise NotNeeded("autocast is on already")
    if not _all_float32(found):
        raise NotNeeded("the parameters are not all float32")
    dtype = torch.bfloat16
    if found.device == "cuda" and _capability("cuda") < (8, 0):
        dtype = torch.float16
    probing.compare(
        "autocast",
        base=found,
        candidate=lambda: found(autocast=dtype),
        once=found.once,
        dtype=str(dtype).removeprefix("torch."),
        model=found.name,
    )


def channels_last(probing: Probing) -> None:
    """The pass with the model's weights and images in channels_last."""
    import torch

    found = probing.training_pass()
    kinds = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
    if not any(isinstance(each, kinds) for each in found.module.modules()):
        raise NotNeeded("the model has no two-dimensional convolution")
    if not any(map(_is_image, batches.leaves(found.arguments))):
        raise NotNeeded("no argument of the model has four dimensions")
    images = [each for each in found.parameters if each.dim() == 4]
    before = [each.data for each in images]
    if any(map(_in_channels_last, before)):
        raise NotNeeded("the model is in channels_last already")
    left, needed = memory.spare(found.parameters[0].device), sum(each.nbytes for each in before)
    if left is not None and needed > left / 2:
        raise NotOffered("too little memory was left to copy the weights")
    after = [each.to(memory_format=torch.channels_last) for each in before]
    current = before

    def use(tensors: list[Any]) -> None:
        nonlocal current
        if current is not tensors:
            current = tensors
            for parameter, tensor in zip(images, tensors, strict=True):
                parameter.grad = None
                parameter.data = tensor

    def base() -> None:
        use(before)
        found()

    def candidate() -> None:
        use(after)
        found(batches.mapped(found.arguments, _to_channels_last))

    try:
        probing.compare("channels_last", base, candidate, found.once, model=found.name)
    finally:
        use(before)


def compiled(probing: Probing) -> None:
    """The compiled pass, where there is time to compile; that is seldom so."""
    import torch

    found = probing.training_pass()
    compiler = os.environ.get("CXX", "g++")
    if found.device == "cpu" and shutil.which(compiler) is None:
        raise NotOffered(f"there is no C++ compiler ({compiler}) to compile it with")
    if Budget.of(probing.driver).trials:
        raise NotOffered("compiling takes up to a minute, and a trial does it in any case")
    if time.monotonic() + COMPILE_S > probing.deadline:
        raise NotOffered(f"compiling takes up to a minute: {probing.lacking(COMPILE_S)}")
    with _compiling_here():
        faster = torch.compile(found.module)
        probing.compare(
            "compile",
            base=found,
            candidate=lambda: found(module=faster),
            once=found.once,
            model=found.name,
        )


def matmul_precision(probing: Probing) -> None:
    """The pass with TF32 matrix products against those of full float32."""
    import torch

    found = probing.training_pass()
    if found.device != "cuda" or _capability("cuda") < (8, 0):
        raise NotNeeded("only a CUDA GPU of capability 8.0 or higher has TF32")
    if found.autocast or _region_now("cuda") or not _all_float32(found):
        raise NotNeeded("the model does not compute in float32")
    before = torch.get_float32_matmul_precision()
    if before != "highest":
        raise NotNeeded(f"the precision is {before} already")
    set_to = torch.set_float32_matmul_precision
    _switched(probing, "matmul_precision", found, set_to, "highest", "high")


def cudnn_benchmark(probing: Probing) -> None:
    """The pass with convolution kernels that cuDNN timed, against those it chose by rule."""
    import torch

    found = probing.training_pass()
    flags = torch.backends.cudnn
    if found.device != "cuda" or flags.benchmark or flags.deterministic:
        raise NotNeeded("no cuDNN kernels are chosen by rule")
    if not any(isinstance(one, torch.nn.modules.conv._ConvNd) for one in found.module.modules()):
        raise NotNeeded("the model has no convolution")

    def set_to(benchmark: bool) -> None:
        flags.benchmark = benchmark

    _switched(probing, "cudnn_benchmark", found, set_to, False, True)


def anomaly(probing: Probing) -> None:
    """The pass without anomaly detection, against that with it."""
    import torch

    if not torch.is_anomaly_enabled():
        raise NotNeeded("anomaly detection is off")
    found, checks_nan = probing.training_pass(), torch.is_anomaly_check_nan_enabled()

    def set_to(on: bool) -> None:
        torch.set_anomaly_enabled(on, checks_nan)

    _switched(probing, "anomaly", found, set_to, True, False)


def _switched(
    probing: Probing, name: str, found: Pass, set_to: Callable[[Any], None], base: Any, other: Any
) -> None:
    """Compare the pass with a switch of PyTorch's as it is, and with the other value."""

    def run(value: Any) -> None:
        set_to(value)
        found()

    try:
        probing.compare(
            name,
            base=lambda: run(base),
            candidate=lambda: run(other),
            once=found.once,
            model=found.name,
        )
    finally:
        set_to(base)


@contextlib.contextmanager
def _compiling_here() -> Iterator[None]:
    """Compile without worker processes, which would stay, and into a folder that goes."""
    import torch
    from torch._inductor import config

    before = os.environ.get(CACHE)
    settings = {"compile_threads": 1, "cpp_cache_precompile_headers": False}
    known = {name: value for name, value in settings.items() if hasattr(config, name)}
    try:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            config.patch(known),
        ):
            os.environ[CACHE] = folder
            yield
    finally:
        if before is None:
            os.environ.pop(CACHE, None)
        else:
            os.environ[CACHE] = before
        torch._dynamo.reset()


def _is_image(tensor: Any) -> bool:
    return bool(tensor.dim() == 4 and tensor.is_floating_point())


def _in_channels_last(tensor: Any) -> bool:
    import torch

    last = tensor.is_contiguous(memory_format=torch.channels_last)
    return bool(last and not tensor.is_contiguous())


def _to_channels_last(tensor: Any) -> Any:
    """The loop would convert each batch too, so this counts as part of the pass."""
    import torch

    return tensor.to(memory_format=torch.channels_last) if _is_image(tensor) else tensor


def _capability(device: str) -> tuple[int, int]:
    import torch

    return torch.cuda.get_device_capability() if device == "cuda" else (0, 0)


def _all_float32(found: Pass) -> bool:
    import torch

    floating = {each.dtype for each in found.parameters if each.is_floating_point()}
    return floating == {torch.float32}


def _region_now(device: str) -> bool:
    """Whether an autocast region is open around the place where the probes run."""
    import torch

    return bool(torch.is_autocast_enabled(device))
