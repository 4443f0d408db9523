"""Batches, iterators and tensors of PyTorch: size, copies, sums, waiting for the device."""

from __future__ import annotations

import copy
import sys
import weakref
from collections import UserDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..timing.loops import same_dataset, undistributed

__all__ = ["dataset_of", "fresh", "same_dataset", "size_in_bytes", "undistributed"]

DEEPEST = 5


def dataset_of(iterator: Any) -> Any:
    """The `DataLoader` an iterator was made from, or None.

    A loader of persistent workers holds its iterator, which must not hold it in turn:
    its workers would outlive it. Such an iterator has a weak reference.
    """
    found = getattr(iterator, "_trainperf_dataset", None)
    return found() if isinstance(found, weakref.ref) else found


def fresh(batch: Any) -> Any:
    """The batch in new containers, so that a loop may take them apart; tensors shared."""
    return mapped(batch, lambda leaf: leaf)


def cloned(batch: Any) -> Any:
    """The batch in new containers with new tensors, for loops that write into theirs."""
    return mapped(batch, _clone)


def mapped(batch: Any, leaf: Callable[[Any], Any], depth: int = 0) -> Any:
    """The batch in new containers of the same types, with `leaf` of each tensor.

    Containers of other kinds (`BatchEncoding`, dataclasses) are copied as they copy
    themselves, then filled: a loop may move them to a device in place.
    """
    if is_tensor(batch):
        return leaf(batch)
    if depth > DEEPEST or isinstance(batch, (str, bytes, int, float, type(None))):
        return batch
    again = partial(mapped, leaf=leaf, depth=depth + 1)
    kind = type(batch)
    if kind is list or kind is tuple:
        return kind(again(value) for value in batch)
    if kind is dict:
        return {key: again(value) for key, value in batch.items()}
    try:
        if isinstance(batch, tuple):
            values = [again(value) for value in batch]
            return kind(*values) if hasattr(kind, "_make") else kind(values)
        if leaf is _clone and hasattr(batch, "clone"):
            return batch.clone()
        return _filled(copy.copy(batch), again)
    except Exception:  # no container that we know: it is handed on as it is
        return batch


def apart(tensor: Any) -> Any:
    """A tensor without the graph it came from, which its own backward has freed."""
    if tensor.grad_fn is None:
        return tensor
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _filled(made: Any, again: Callable[[Any], Any]) -> Any:
    if isinstance(made, (dict, UserDict)):  # others may stand for files
        for key in list(made):
            made[key] = again(made[key])
    elif isinstance(made, list):
        made[:] = [again(value) for value in made]
    elif hasattr(made, "__dataclass_fields__"):
        for name in made.__dataclass_fields__:
            object.__setattr__(made, name, again(getattr(made, name)))
    return made


def _clone(tensor: Any) -> Any:
    """A tensor of the same numbers, in page-locked memory if this one is."""
    detached = tensor.detach()
    if tensor.is_pinned():
        made = sys.modules["torch"].empty_like(detached, pin_memory=True).copy_(detached)
    else:
        made = detached.clone()
    return made.requires_grad_() if tensor.requires_grad else made


def leaves(batch: Any, depth: int = 0) -> Iterator[Any]:
    if is_tensor(batch):
        yield batch
    elif depth < DEEPEST:
        if hasattr(batch, "keys"):
            batch = [batch[key] for key in batch.keys()]  # noqa: SIM118 - not all iterate keys
        elif hasattr(batch, "__dataclass_fields__"):
            batch = [getattr(batch, name) for name in batch.__dataclass_fields__]
        if isinstance(batch, (list, tuple)):
            for value in batch:
                yield from leaves(value, depth + 1)


def versions(batch: Any) -> tuple[tuple[int, bool], ...]:
    """How often each tensor of a batch was written to, and whether it gathers gradients."""
    return tuple(
        (leaf._version, leaf.requires_grad) for leaf in leaves(batch) if not leaf.is_inference()
    )


def size_in_bytes(batch: Any) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(batch))


def is_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)
