"""How much of the sequences in a batch of PyTorch tensors is padding."""

from __future__ import annotations

from typing import Any

from .. import batches as torch_batches

SHORTEST = 8
"""Sequences of fewer steps are none, or not worth a word."""

MOST_BATCHES = 16


def record(driver: Any) -> None:
    """Record the lengths of the sequences in the batches at hand, if they are padded.

    Padding is what ends most rows of a tensor of whole numbers, or zeros that end the
    sequences of a tensor of features. Lengths are counted on the host, of a few batches.
    """
    lengths: list[int] = []
    padded: list[int] = []
    longest: list[int] = []
    batches = driver.recent_batches()[-MOST_BATCHES:]
    for batch in batches:
        for leaf in torch_batches.leaves(batch):
            ends = _ends(leaf)
            if ends:
                lengths += ends
                padded += [int(leaf.shape[1])] * len(ends)
                longest.append(max(ends))
                break
    if len(lengths) < SHORTEST or sum(lengths) == sum(padded):
        return
    driver.record.write(
        "padding",
        lengths=sorted(lengths),
        padded=sum(padded) / len(padded),
        batch=len(lengths) // len(longest),
        longest=sum(longest) / len(longest),
    )


def _ends(leaf: Any) -> list[int]:
    """Where each sequence of a batch ends; none where it holds no padded sequences."""
    import torch

    if leaf.dim() not in (2, 3) or leaf.shape[0] < 2 or leaf.shape[1] < SHORTEST:
        return []
    if leaf.is_floating_point() != (leaf.dim() == 3) or leaf.dtype == torch.bool:
        return []
    with torch.no_grad():
        values = leaf.detach().cpu()
        if values.dim() == 3:
            given = (values != 0).any(dim=2)
        else:
            given = values != values[:, -1].mode().values
    steps = torch.arange(1, given.shape[1] + 1)
    return [int(end) for end in (given * steps).max(dim=1).values]
