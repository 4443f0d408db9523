"""How long the sequence of an item is, told from the batch that items became."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import batches as torch_batches
from .padding import given_steps, sequence_ends


def of_items(items: list[Any], batch: Any) -> dict[str, Any] | None:
    """Say which member of an item has the length that its row of the batch has; None if none.

    `at` is its index or key, None for the item itself. `how` is "len" where each item has a
    length of its own, "given" where items are padded already, with `value`.
    """
    ends: list[int] = []
    for leaf in torch_batches.leaves(batch):
        if ends := sequence_ends(leaf):
            break
    if len(ends) != len(items) or len(set(ends)) < 2:
        return None
    for at, values in _members(items):
        lengths = [_length(value) for value in values]
        if None not in lengths and len({a - b for a, b in zip(lengths, ends, strict=True)}) == 1:  # type: ignore[operator]
            return {"at": at, "how": "len"}
        found = _given(values, ends)
        if found is not None:
            return {"at": at, "how": "given", **found}
    return None


def _members(items: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    first = items[0]
    if isinstance(first, (tuple, list)) and not all(isinstance(one, (int, float)) for one in first):
        for at in range(len(first)):
            yield at, [item[at] for item in items]
    elif hasattr(first, "keys"):
        for key in first.keys():  # noqa: SIM118 - not all iterate keys
            if isinstance(key, str):
                yield key, [item[key] for item in items]
    else:
        yield None, items


def _length(value: Any) -> int | None:
    """The steps of a sequence; None for what is none."""
    if isinstance(value, (str, dict)) or getattr(value, "ndim", 1) == 0:
        return None
    try:
        return len(value)
    except TypeError:
        return None


def _given(values: list[Any], ends: list[int]) -> dict[str, Any] | None:
    """The padding of rows that are of one length, where it ends them as it ends the batch's."""
    import torch

    if not all(torch_batches.is_tensor(value) and value.dim() in (1, 2) for value in values):
        return None
    if len({tuple(value.shape) for value in values}) != 1:
        return None
    rows = torch.stack(values)
    if sequence_ends(rows) != ends:
        return None
    return {"value": given_steps(rows)[1], "features": rows.dim() == 3}
