"""Batches, iterators and tensors of PyTorch: size, copies, sums, waiting for the device."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from .batches import dataset_of, same_dataset

__all__ = ["dataset_of", "same_dataset"]

DEEPEST = 5
LONGEST = 1_000_000
"""Of a larger tensor only so many elements are summed."""


def fresh(batch: Any, depth: int = 0) -> Any:
    """The batch in new containers, so that a loop may take them apart; tensors shared.

    Containers of other kinds (`BatchEncoding`, dataclasses) are copied as they copy
    themselves: a loop may move them to a device in place.
    """
    if isinstance(batch, list):
        return [fresh(value, depth + 1) for value in batch]
    if type(batch) is tuple:
        return tuple(fresh(value, depth + 1) for value in batch)
    if isinstance(batch, tuple):
        return type(batch)(*(fresh(value, depth + 1) for value in batch))
    if type(batch) is dict:
        return {key: fresh(value, depth + 1) for key, value in batch.items()}
    if is_tensor(batch) or isinstance(batch, (str, bytes, int, float, type(None))):
        return batch
    try:
        return copy.copy(batch)
    except Exception:  # no containers of ours: it is handed on as it is
        return batch


def cloned(batch: Any) -> Any:
    """The batch in new containers with new tensors, for loops that write into theirs."""
    if is_tensor(batch):
        return batch.clone()
    if isinstance(batch, list):
        return [cloned(value) for value in batch]
    if type(batch) is tuple:
        return tuple(cloned(value) for value in batch)
    if type(batch) is dict:
        return {key: cloned(value) for key, value in batch.items()}
    return fresh(batch)


def leaves(batch: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors of a batch."""
    if is_tensor(batch):
        yield batch
    elif depth < DEEPEST:
        if isinstance(batch, Mapping) or hasattr(batch, "keys"):
            batch = [batch[key] for key in batch.keys()]  # noqa: SIM118 - not all iterate keys
        elif hasattr(batch, "__dataclass_fields__"):
            batch = [getattr(batch, name) for name in batch.__dataclass_fields__]
        if isinstance(batch, (list, tuple)):
            for value in batch:
                yield from leaves(value, depth + 1)


def versions(batch: Any) -> tuple[int, ...]:
    """How often each tensor of a batch was written to."""
    return tuple(leaf._version for leaf in leaves(batch) if not leaf.is_inference())


def size_in_bytes(batch: Any) -> int:
    """Bytes of all tensors of a batch."""
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(batch))


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, sys.modules["torch"].Tensor)


def sync_devices() -> None:
    """Wait until the GPU has done what was queued; nothing to do on the CPU."""
    cuda = sys.modules["torch"].cuda
    if cuda.is_initialized():
        cuda.synchronize()


def absolute_sum(tensors: list[Any]) -> float:
    """The sum of the absolute values of some tensors; waits for the device."""
    torch: Any = sys.modules["torch"]
    total = 0.0
    with torch.no_grad():
        for tensor in tensors:
            flat = tensor.detach().reshape(-1)[:LONGEST]
            total += float(flat.double().abs().sum())
    return total
