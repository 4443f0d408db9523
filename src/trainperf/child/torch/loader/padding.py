"""What a batch of PyTorch tensors holds: samples, tokens, and how much of it is padding.

Sequences may have their time first. The loader says how many samples it takes; else the tensors
must agree.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from ...timing.probing import once
from .. import batches as torch_batches
from .. import devices
from ..built.places import ModelCall
from .settings import batch_size

SHORTEST = 8
"""Sequences of fewer steps are none, or not worth a word."""

MOST_BATCHES = 16


def padded(batches: list[Any], size: int | None = None) -> dict[str, Any] | None:
    """The lengths of the sequences in some batches, None if they are not padded.

    Padding is what ends most rows of a tensor of whole numbers, or zeros that end the
    sequences of a tensor of features. Lengths are counted on the host, of a few batches. Where
    a batch has `size` samples in the second dimension, time comes first: it is left out.
    """
    ends, widths, place = list[list[int]](), list[int](), dict[str, Any]()
    for batch in batches[-MOST_BATCHES:]:
        for leaf in torch_batches.leaves(batch):
            time_first = leaf.dim() > 1 and leaf.shape[0] != size == leaf.shape[1]
            if not time_first and (found := sequence_ends(leaf)):
                ends.append(found)
                widths += [int(leaf.shape[1])] * len(found)
                place = _place(batch, leaf)
                break
    lengths = sorted(itertools.chain(*ends))
    if len(lengths) < SHORTEST or sum(lengths) == sum(widths):
        return None
    return {
        "lengths": lengths,
        "padded": statistics.fmean(widths),
        "batch": len(lengths) // len(ends),
        "longest": statistics.fmean(map(max, ends)),
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
        lengths = [_length(value) for value in values]
        if None not in lengths and len({a - b for a, b in zip(lengths, ends, strict=True)}) == 1:
            return {"at": at, "how": "len"}
        tensors = all(torch_batches.is_tensor(value) and value.dim() in (1, 2) for value in values)
        if tensors and len({tuple(value.shape) for value in values}) == 1:
            rows = sys.modules["torch"].stack(values)
            if sequence_ends(rows) == ends:  # padding ends them as it ends the batch's
                value, features = given_steps(rows)[1], rows.dim() == 3
                return {"at": at, "how": "given", "value": value, "features": features}
    return None


def _members(items: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    first = items[0]
    keys: Any = [None]
    if isinstance(first, (tuple, list)) and not all(isinstance(one, (int, float)) for one in first):
        keys = range(len(first))
    elif hasattr(first, "keys"):
        keys = [key for key in first.keys() if isinstance(key, str)]  # noqa: SIM118
    for key in keys:
        yield key, items if key is None else [item[key] for item in items]


def _length(value: Any) -> Any:
    if isinstance(value, (str, dict)) or getattr(value, "ndim", 1) == 0:
        return None
    return len(value) if hasattr(value, "__len__") else None


# What the models make of the padding of a batch.


CLOSE = 5e-3
"""Largest distance of two outputs that other rounding may make, over their usual size."""

ROUNDS, ROUNDS_S = (2, 9), 1.0
"""How often models are run with and without padding: the fewest and, within so long, the most; the
first of them, which may compile, does not count."""


def without_padding(driver: Any, calls: list[ModelCall]) -> dict[str, Any]:
    """Whether the models give the same without the padding of their batch, and in what time.

    Each is run without gradients, and in the mode of evaluation, on what it was called with last
    and on the same cut to the longest sequence; where one is as long as the padding, both with
    the half of the samples that is shortest. `masked` says whether they gave the same, `follows`
    how much of their time goes with the length: 1 is all of it. Both are missing where no model
    is given padded sequences, or in one of several processes: the others would wait for it.
    """
    ends: list[int]
    for leaf in torch_batches.leaves([call.arguments for call in calls]):
        if (ends := sequence_ends(leaf)) and sum(ends) < leaf.shape[0] * leaf.shape[1]:
            break
    else:
        return {}
    rows, steps = leaf.shape[:2]
    order = sorted(range(rows), key=ends.__getitem__)
    if ends[order[-1]] == steps:
        order = order[: rows // 2]
    longest = max(1, ends[order[-1]])
    if longest == steps or devices.processes() > 1:
        return {}
    order.sort()  # as they stand in the batch: what packs sequences wants the longest first

    def some(leaf: Any) -> Any:
        return leaf.detach()[order] if leaf.dim() and leaf.shape[0] == rows else leaf.detach()

    def cut(leaf: Any) -> Any:
        return leaf[:, :longest] if leaf.dim() > 1 and leaf.shape[1] == steps else leaf

    def shortened(leaf: Any) -> Any:
        return cut(some(leaf)).clone()  # in one piece: models take views of it

    least, most = ROUNDS
    wholes, shorts = list[float](), list[float]()
    began = time.monotonic()
    while len(shorts) < least or (len(shorts) < most and time.monotonic() < began + ROUNDS_S):
        whole = [_run(driver, call, some) for call in calls]
        short = [_run(driver, call, shortened) for call in calls]
        wholes.append(sum(seconds for _, seconds in whole))
        shorts.append(sum(seconds for _, seconds in short))
    masked = all(
        _alike([cut(leaf) for leaf in these], [cut(leaf) for leaf in those])
        for (these, _), (those, _) in zip(whole, short, strict=True)
    )
    del wholes[0], shorts[0]
    follows = (1 - min(shorts) / min(wholes)) / (1 - longest / steps)
    if statistics.median_low(shorts) >= min(wholes):
        follows = 0.0  # noise
    return {"masked": masked, "follows": min(1.0, follows)}


def _run(driver: Any, call: ModelCall, change: Callable[[Any], Any]) -> tuple[list[Any], float]:
    """What a model gives for its last arguments, each tensor changed, and in how many seconds."""
    from ..probes.passes import changed, evaluated

    args, kwargs = changed((call.args, call.kwargs), change)
    given: list[Any] = []

    def run() -> None:
        given[:] = torch_batches.leaves(call.module(*args, **kwargs))

    with evaluated(call.module):
        seconds = once(driver, run)
    return [leaf.float() for leaf in given], seconds


def _alike(these: list[Any], those: list[Any]) -> bool:
    return [leaf.shape for leaf in these] == [leaf.shape for leaf in those] != [] and all(
        float((one - other).abs().max()) <= CLOSE * (float(one.abs().mean()) or 1.0)
        for one, other in zip(these, those, strict=True)
    )


# Samples and tokens.


SEQUENCES = ("RNNBase", "MultiheadAttention", "Transformer")
"""Classes of PyTorch whose modules work through sequences."""


def of_batch(batch: Any, loader: Any) -> int | None:
    """Samples in a batch: as many as the loader takes, where a dimension or list has so many.

    Such a list has a tensor for each sample (images of different sizes). Else, as in the odd batch
    that ends an epoch, the first dimension of the first tensor that has one.
    """
    size = None if loader is None else batch_size(loader)
    leaves = list(torch_batches.leaves(batch))
    parts = batch if isinstance(batch, (list, tuple)) else [batch]
    lists = [len(one) for one in (batch, *parts) if isinstance(one, (list, tuple))]
    sizes = [int(each) for leaf in leaves for each in leaf.shape[:2]]
    if size is not None and size in (*sizes, *lists):
        return size
    return next((int(leaf.shape[0]) for leaf in leaves if leaf.dim()), None)


def usual(batches: list[Any], loader: Any) -> Any:
    """The last batch, or one before it where the last is the odd one that ends an epoch."""
    sizes = [of_batch(one, loader) or 0 for one in batches]
    return batches[sizes.index(statistics.median_high(sizes))]


def of_call(call: ModelCall) -> int | None:
    """Samples in what a model was called with, None where it may as well be the time.

    Sequences often have their time first, with a state that has the samples second. The
    first dimension counts if all arguments share it and no layer wants the time there; the
    second if they differ in the first. Token numbers alone say neither.
    """
    leaves = [leaf for leaf in torch_batches.leaves(call.arguments) if leaf.dim()]
    shapes = [tuple(int(each) for each in leaf.shape) for leaf in leaves]
    first = {shape[0] for shape in shapes}
    second = {shape[1] for shape in shapes if len(shape) > 1}
    time_first = any(getattr(one, "batch_first", None) is False for one in call.module.modules())
    if len(first) == 1 and not time_first:
        tokens = len(shapes) == 1 and len(shapes[0]) == 2 and not leaves[0].is_floating_point()
        return None if tokens else first.pop()
    if len(shapes) > 1 and len(second) == 1 and all(len(shape) > 1 for shape in shapes):
        return second.pop()
    return None


def record_tokens(driver: Any) -> None:
    """Record the tokens of a batch, where its batches hold any."""
    calls = list(driver.loops.models.calls.values())
    if not calls:
        return
    batches = driver.recent_batches() or [calls[-1].arguments]
    if found := tokens(batches, [call.module for call in calls]):
        driver.record.write("sequences", **found)


def tokens(batches: list[Any], models: list[Any]) -> dict[str, float]:
    """Tokens of a batch on average, and how many are real; empty where batches hold none.

    Tokens are whole numbers in two dimensions that a model of sequences can look up. The real ones
    are those that a mask among them leaves, or that are not the index which the model pads with.
    """
    counted = [one for one in (_tokens(batch, models) for batch in batches) if one is not None]
    if not counted:
        return {}
    whole = {"tokens": statistics.fmean(every for every, _ in counted)}
    real = [some for _, some in counted if some is not None]
    return whole if len(real) < len(counted) else {**whole, "real_tokens": statistics.fmean(real)}


def _tokens(batch: Any, models: list[Any]) -> tuple[int, int | None] | None:
    """Tokens in a batch, and the real ones among them, None where these cannot be told."""
    named = dict(members(batch)[1]) or dict(enumerate(torch_batches.leaves(batch)))
    tensors = {key: one for key, one in named.items() if torch_batches.is_tensor(one)}
    parts = [part for model in models for part in model.modules()]
    configs = [getattr(model, "config", None) for model in models]
    sequential = any(hasattr(config, "vocab_size") for config in configs) or any(
        cls.__name__ in SEQUENCES for part in parts for cls in type(part).__mro__
    )
    for ids in [tensors["input_ids"]] if "input_ids" in tensors else tensors.values():
        others = {key: one for key, one in tensors.items() if one is not ids}
        tables = _tables(ids, parts)
        masks = [one for key, one in others.items() if _is_mask(key, one, ids)] if tables else []
        if masks:
            return ids.numel(), int((masks[0] != 0).sum())
        alike = [
            one for one in others.values() if (one.numel(), one.dtype) == (ids.numel(), ids.dtype)
        ]
        if tables and (sequential or alike):
            # The index of padding, by the embedding of the tokens or the model's configuration.
            told = [getattr(config, "pad_token_id", None) for config in configs]
            pads = [
                pad for pad in (*(one.padding_idx for one in tables), *told) if type(pad) is int
            ]
            return ids.numel(), int((ids != pads[0]).sum()) if pads else None
    return None


def _tables(ids: Any, modules: list[Any]) -> list[Any]:
    import torch

    whole = ids.dtype in (torch.int64, torch.int32)
    if not whole or ids.dim() != 2 or max(ids.shape) < SHORTEST:
        return []
    low, high = (int(each) for each in ids.aminmax())
    tables = [one for one in modules if isinstance(one, torch.nn.Embedding)]
    return [one for one in tables if 0 <= low <= high < one.num_embeddings]


def _is_mask(key: Any, one: Any, ids: Any) -> bool:
    """Whether a tensor beside tokens tells the real ones; those of no name begin each row so."""
    if one.shape != ids.shape or (isinstance(key, str) and "mask" not in key):
        return False
    ones = one != 0
    begins = key == "attention_mask" or bool(ones[:, 0].all())
    return begins and bool((ones == one).all())
