"""Loaders before and after their batches are cut to the longest; some are left alone."""

from __future__ import annotations

from typing import Any

from rewriting import Example


def _place(kind: str, at: int | str, *along: int | str, **fields: Any) -> dict[str, Any]:
    more = {"value": 0, "features": False, **fields}
    return {"place": {"kind": kind, "at": at, "along": along or (at,), **more}}


EXAMPLES = [
    Example(
        before="import torch\nfrom torch.utils.data import DataLoader\n\n"
        "loader = ▸DataLoader(reviews, batch_size=32, shuffle=True)◂\n",
        after='''\
import torch
from torch.utils.data import DataLoader


def to_longest(samples):
    """Collate the samples, and cut the padding behind the longest of them."""
    batch = list(torch.utils.data.default_collate(samples))
    given = batch[0] != 0
    steps = torch.arange(1, given.shape[1] + 1, device=given.device)
    longest = max(1, int((given * steps).max()))
    for each in (0,):
        batch[each] = batch[each][:, :longest].contiguous()
    return batch


loader = DataLoader(reviews, batch_size=32, shuffle=True, collate_fn=to_longest)
''',
        data=_place("list", 0),
    ),
    Example(  # a collate function of the user's, dictionaries, a mask beside the tokens
        before="import torch\n\n"
        "loader = ▸torch.utils.data.DataLoader(data, 16, collate_fn=Collator(tokenizer))◂\n",
        after='''\
import torch
import functools


def to_longest(collate, samples):
    """Collate the samples, and cut the padding behind the longest of them."""
    batch = collate(samples)
    given = batch['input_ids'] != 1
    steps = torch.arange(1, given.shape[1] + 1, device=given.device)
    longest = max(1, int((given * steps).max()))
    for each in ('input_ids', 'attention_mask'):
        batch[each] = batch[each][:, :longest].contiguous()
    return batch


loader = torch.utils.data.DataLoader(data, 16, collate_fn=functools.partial(to_longest, Collator(tokenizer)))
''',  # noqa: E501
        data=_place("dict", "input_ids", "input_ids", "attention_mask", value=1),
    ),
    Example(  # features, which end with zeros
        before="import torch\n\nloader = ▸DataLoader(clips, collate_fn=None)◂\n",
        after='''\
import torch


def to_longest(samples):
    """Collate the samples, and cut the padding behind the longest of them."""
    batch = torch.utils.data.default_collate(samples)
    given = (batch != 0).any(dim=2)
    steps = torch.arange(1, given.shape[1] + 1, device=given.device)
    longest = max(1, int((given * steps).max()))
    return batch[:, :longest].contiguous()


loader = DataLoader(clips, collate_fn=to_longest)
''',
        data=_place("tensor", 0, features=True),
    ),
    Example.untouched("loader = ▸make_loader(reviews, 32)◂\n", _place("list", 0)),
    Example.untouched("import torch\n\nloader = ▸DataLoader(reviews, **how)◂\n", _place("list", 0)),
]
