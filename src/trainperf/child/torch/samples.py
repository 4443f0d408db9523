"""How many samples a batch of PyTorch tensors has, and how many tokens.

Sequences may have their time first. The loader says how many samples it takes; else the tensors
must agree.
"""

from __future__ import annotations

import statistics
from typing import Any

from . import batches as torch_batches
from .built.places import ModelCall
from .loader import settings
from .loader.padding import SHORTEST, members

SEQUENCES = ("RNNBase", "MultiheadAttention", "Transformer")
"""Classes of PyTorch whose modules work through sequences."""


def of_batch(batch: Any, loader: Any) -> int | None:
    """Samples in a batch: as many as the loader takes, where a dimension or list has so many.

    Such a list has a tensor for each sample (images of different sizes). Else, as in the odd batch
    that ends an epoch, the first dimension of the first tensor that has one.
    """
    size = None if loader is None else settings.batch_size(loader)
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


def record(driver: Any) -> None:
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
    held = [tensors["input_ids"]] if "input_ids" in tensors else tensors.values()
    parts = [part for model in models for part in model.modules()]
    configs = [getattr(model, "config", None) for model in models]
    for ids in held:
        tables = _tables(ids, parts)
        if not tables:
            continue
        others = {key: one for key, one in tensors.items() if one is not ids}
        masks = [one for key, one in others.items() if _is_mask(key, one, ids)]
        follow = any(
            one.numel() == ids.numel() and one.dtype == ids.dtype for one in others.values()
        )
        names = {cls.__name__ for part in parts for cls in type(part).__mro__}
        reads = any(hasattr(config, "vocab_size") for config in configs)
        if not (masks or follow or reads or names.intersection(SEQUENCES)):
            continue
        if masks:
            return ids.numel(), int((masks[0] != 0).sum())
        # The index of padding, by the embedding of the tokens or the model's configuration.
        told = [getattr(config, "pad_token_id", None) for config in configs]
        pads = [pad for pad in (*(one.padding_idx for one in tables), *told) if type(pad) is int]
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
