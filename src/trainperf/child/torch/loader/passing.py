"""The cost of handing a finished batch over: into shared memory, and into pinned memory."""

from __future__ import annotations

import io
import pickle
import sys
import time
from typing import Any

DEEPEST = 5
MOST_PASSED = 100


def value_bytes(value: Any, depth: int = 0) -> int:
    """Bytes of the tensors, arrays and texts in a value of nested containers."""
    numel = getattr(value, "numel", None)
    if callable(numel) and hasattr(value, "element_size"):
        return int(numel()) * int(value.element_size())
    if isinstance(getattr(value, "nbytes", None), int):
        return int(value.nbytes)
    if isinstance(value, (str, bytes, bytearray)):
        return len(value)
    if depth >= DEEPEST:
        return 0
    if isinstance(value, dict) or hasattr(value, "keys"):
        value = [value[key] for key in value.keys()]  # noqa: SIM118 - not all iterate keys
    if isinstance(value, (list, tuple)):
        return sum(value_bytes(each, depth + 1) for each in value)
    return 0


def copied_s(batch: Any, seconds: float) -> float:
    """Seconds to get a batch out of a worker, at least.

    What is in tensors goes through shared memory (copied into it, a file without a
    name that is gone with its tensor); the rest is pickled and read again. What the
    pipe takes is not counted, so it is a lower bound.
    """
    until = time.monotonic() + seconds
    times: list[float] = []
    while len(times) < 2 or (time.monotonic() < until and len(times) < MOST_PASSED):
        tensors: list[Any] = []
        began = time.monotonic()
        text = io.BytesIO()
        _Pickler(text, tensors).dump(batch)
        _Unpickler(io.BytesIO(text.getvalue()), tensors).load()
        took = time.monotonic() - began
        for tensor in tensors:
            took += _shared_s(tensor)
        times.append(took)
        if took > seconds:
            break
    warm = times[1:] or times
    return sum(warm) / len(warm)


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, tensors: list[Any]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._tensors = tensors

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, sys.modules["torch"].Tensor):
            return None
        self._tensors.append(value)
        return len(self._tensors) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, tensors: list[Any]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, pid: Any) -> Any:
        return self._tensors[pid]


def _shared_s(tensor: Any) -> float:
    """Seconds to copy a tensor into shared memory, whatever the sharing strategy is."""
    if tensor.layout is not sys.modules["torch"].strided or tensor.device.type != "cpu":
        return 0.0
    own = tensor.detach().clone()
    storage = own.untyped_storage()
    began = time.monotonic()
    storage._share_fd_cpu_()  # the descriptor belongs to the storage, and goes with it
    return time.monotonic() - began


def pinned_s(batch: Any, seconds: float) -> float:
    """Seconds to copy a batch into pinned memory."""
    torch: Any = sys.modules["torch"]
    pin_memory: Any = sys.modules["torch.utils.data._utils.pin_memory"].pin_memory

    until = time.monotonic() + seconds
    times: list[float] = []
    while len(times) < 2 or (time.monotonic() < until and len(times) < MOST_PASSED):
        torch.cuda.synchronize()
        began = time.monotonic()
        pinned = pin_memory(batch)
        times.append(time.monotonic() - began)
        del pinned  # its memory is used for the next one, as in the loader's own thread
        if times[-1] > seconds:
            break
    warm = times[1:] or times
    return sum(warm) / len(warm)
