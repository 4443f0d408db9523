"""How much of the sequences in a batch of PyTorch tensors is padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import batches as torch_batches
from .. import memory
from ..built.places import ModelCall

SHORTEST = 8
"""Sequences of fewer steps are none, or not worth a word."""

MOST_BATCHES = 16


def padded(batches: list[Any], size: int | None = None) -> dict[str, Any] | None:
    """The lengths of the sequences in some batches, None if they are not padded.

    Padding is what ends most rows of a tensor of whole numbers, or zeros that end the
    sequences of a tensor of features. Lengths are counted on the host, of a few batches. Where
    a batch has `size` samples in the second dimension, time comes first: it is left out.
    """
    lengths, widths, longest = list[int](), list[int](), list[int]()
    place: dict[str, Any] = {}
    for batch in batches[-MOST_BATCHES:]:
        for leaf in torch_batches.leaves(batch):
            time_first = leaf.dim() > 1 and leaf.shape[0] != size == leaf.shape[1]
            if not time_first and (ends := sequence_ends(leaf)):
                lengths += ends
                widths += [int(leaf.shape[1])] * len(ends)
                longest.append(max(ends))
                place = _place(batch, leaf)
                break
    if len(lengths) < SHORTEST or sum(lengths) == sum(widths):
        return None
    return {
        "lengths": sorted(lengths),
        "padded": sum(widths) / len(widths),
        "batch": len(lengths) // len(longest),
        "longest": sum(longest) / len(longest),
        "place": place or None,
    }


def sequence_ends(leaf: Any) -> list[int]:
    """Where each sequence of a batch ends; none where it holds no padded sequences."""
    import torch

    if leaf.dim() not in (2, 3) or leaf.shape[0] < 2 or leaf.shape[1] < SHORTEST:
        return []
    if leaf.is_floating_point() != (leaf.dim() == 3) or leaf.dtype == torch.bool:
        return []
    given, _ = given_steps(leaf)
    steps = torch.arange(1, given.shape[1] + 1)
    return [int(end) for end in (given * steps).max(dim=1).values]


def given_steps(leaf: Any) -> tuple[Any, int]:
    """Which steps of padded rows are no padding, and what the padding is."""
    values = leaf.detach().cpu()
    if values.dim() == 3:
        return (values != 0).any(dim=2), 0
    padding = int(values[:, -1].mode().values)  # what most rows end with
    return values != padding, padding


def _place(batch: Any, leaf: Any) -> dict[str, Any]:
    """Where in a batch its sequences are, and what else goes along with them step by step.

    Empty where the batch is no plain list, tuple or dictionary of tensors.
    """
    kind, held = members(batch)
    at = next((key for key, value in held if value is leaf), None)
    if at is None:
        return {}
    along = [
        key
        for key, value in held
        if torch_batches.is_tensor(value) and value.shape[:2] == leaf.shape[:2]
    ]
    _, value = given_steps(leaf)
    return {"kind": kind, "at": at, "along": along, "value": value, "features": leaf.dim() == 3}


def members(batch: Any) -> tuple[str, list[tuple[str | int, Any]]]:
    """The kind of a plain container and what it holds, by index or key; "" for any other."""
    if torch_batches.is_tensor(batch):
        return "tensor", [(0, batch)]
    if type(batch) in (list, tuple):
        return type(batch).__name__, list(enumerate(batch))
    if hasattr(batch, "keys") and all(isinstance(key, str) for key in batch.keys()):  # noqa: SIM118
        return "dict", [(key, batch[key]) for key in batch.keys()]  # noqa: SIM118
    return "", []


def lengths_in_items(items: list[Any], batch: Any) -> dict[str, Any] | None:
    """Say which member of an item has the length that its row of the batch has; None if none.

    `at` is its index or key, None for the item itself. `how` is "len" where each item has a
    length of its own, "given" where items are padded already, with `value`.
    """
    ends = next(filter(None, map(sequence_ends, torch_batches.leaves(batch))), [])
    if len(ends) != len(items) or len(set(ends)) < 2:
        return None
    for at, values in _members(items):
        steps = map(_length, values)
        apart = {None if a is None else a - b for a, b in zip(steps, ends, strict=True)}
        if len(apart) == 1 and None not in apart:
            return {"at": at, "how": "len"}
        if (found := _given(values, ends)) is not None:
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


# Whether a model gives the same without the padding of its batch.


CLOSE = 5e-3
"""Largest distance of two outputs that other rounding may make, over their usual size."""


def masks_padding(calls: list[ModelCall]) -> bool | None:
    """Whether the largest model gives the same for its shorter sequences without their padding.

    The half of the samples with the shortest sequences is run without gradients, and in the
    mode of evaluation, as it is and cut to the longest of them. None where its arguments hold
    no padded sequences, or where it is one of several processes: the others would wait for it.
    """
    from ..probes.passes import changed, evaluated

    if not calls or memory.processes() > 1:
        return None
    weights = lambda call: sum(weight.numel() for weight in call.module.parameters())  # noqa: E731
    largest = max(calls, key=weights)
    module, arguments = largest.module, (largest.args, largest.kwargs)
    held = torch_batches.leaves(arguments)
    found = next(((leaf, ends) for leaf in held if (ends := sequence_ends(leaf))), None)
    if found is None:
        return None
    rows, steps = found[0].shape[:2]
    order = sorted(range(rows), key=found[1].__getitem__)[: max(1, rows // 2)]
    longest = max(1, max(found[1][row] for row in order))
    if longest >= steps:
        return None

    def some(leaf: Any) -> Any:
        return leaf.detach()[order] if leaf.dim() and leaf.shape[0] == rows else leaf.detach()

    def cut(leaf: Any) -> Any:
        return leaf[:, :longest] if leaf.dim() > 1 and leaf.shape[1] == steps else leaf

    with evaluated(module):
        whole, short = (
            [cut(leaf.float()) for leaf in torch_batches.leaves(module(*args, **kwargs))]
            for args, kwargs in (
                changed(arguments, some),
                changed(arguments, lambda leaf: cut(some(leaf))),
            )
        )
    return [leaf.shape for leaf in whole] == [leaf.shape for leaf in short] != [] and all(
        float((one - other).abs().max()) <= CLOSE * (float(one.abs().mean()) or 1.0)
        for one, other in zip(whole, short, strict=True)
    )
