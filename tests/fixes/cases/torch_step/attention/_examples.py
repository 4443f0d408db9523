"""Functions that write attention out, as they are and as they become."""

from __future__ import annotations

from rewriting import Example, unmarked

HEAD = """\
import math

import torch
from torch import nn
from torch.nn import functional as F


"""
CLASS = """\
class SelfAttention(nn.Module):
    def __init__(self, size, heads, longest, rate):
        super().__init__()
        self.heads, self.scale = heads, (size // heads) ** -0.5
        self.drop = nn.Dropout(rate)
        self.soft = nn.Softmax(dim=-1)
        self.register_buffer("low", torch.tril(torch.ones(longest, longest)))
        self.temperature = nn.Parameter(torch.ones(1))

    def ▸forward(self, q, k, v, mask=None)◂:
        T = q.size(2)
"""


def _of(before: str, after: str | None = None) -> Example:
    """The body of a method of the class before and after; None: it is left alone."""
    head = HEAD + CLASS
    return Example(head + before, unmarked(head) + (after or before))


EXAMPLES = [
    Example(  # a mask that hides later positions, dropout of the weights
        before=HEAD
        + """\
class CausalSelfAttention(nn.Module):
    def __init__(self, longest, rate):
        super().__init__()
        self.attn_drop = nn.Dropout(rate)
        mask = torch.tril(torch.ones(longest, longest))
        self.register_buffer("mask", mask.view(1, 1, longest, longest))

    def ▸forward(self, q, k, v)◂:
        B, H, T, D = q.shape
        # (B, H, T, D) x (B, H, D, T)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_drop(att)
        y = att @ v
        return y.transpose(1, 2).reshape(B, T, H * D)
""",
        after=HEAD
        + """\
class CausalSelfAttention(nn.Module):
    def __init__(self, longest, rate):
        super().__init__()
        self.attn_drop = nn.Dropout(rate)
        mask = torch.tril(torch.ones(longest, longest))
        self.register_buffer("mask", mask.view(1, 1, longest, longest))

    def forward(self, q, k, v):
        B, H, T, D = q.shape
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.attn_drop.p if self.training else 0.0
        )
        return y.transpose(1, 2).reshape(B, T, H * D)
""",
    ),
    Example(  # a function; hidden scores are small, not -inf: so they stay
        before="""\
import math, torch


def ▸attention(query, key, value, mask=None, dropout=None)◂:
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)

    # hide padding
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)

    weights = scores.softmax(dim=-1)
    if dropout is not None:
        weights = dropout(weights)
    return torch.matmul(weights, value)
""",
        after="""\
import math, torch


def attention(query, key, value, mask=None, dropout=None):
    return torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=torch.where(mask == 0, -1e9, 0.0).to(query.dtype) if mask is not None else None,
        dropout_p=dropout.p if dropout is not None and dropout.training else 0.0,
    )
""",
    ),
    Example(  # einsum: the dimensions move; a scale of its own
        before="""\
import torch


def ▸attend(queries, keys, values, size)◂:
    energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
    attention = torch.softmax(energy / (size ** (1 / 2)), dim=3)
    return torch.einsum("nhql,nlhd->nqhd", [attention, values]).flatten(2)
""",
        after="""\
import torch


def attend(queries, keys, values, size):
    return torch.nn.functional.scaled_dot_product_attention(
        queries.transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        scale=1 / (size ** (1 / 2)),
    ).transpose(1, 2).flatten(2)
""",
    ),
    Example(  # three dimensions: the fast kernels want four
        before="""\
import torch
from torch.nn import functional as F


def ▸attend(q, k, v)◂:
    return torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=2), v)
""",
        after="""\
import torch
from torch.nn import functional as F


def attend(q, k, v):
    return F.scaled_dot_product_attention(
        q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), scale=1.0
    ).squeeze(0)
""",
    ),
    _of(  # a bias, a mask to be seen by, a softmax that is a module
        """\
        scores = q @ k.mT * self.scale + mask
        weights = self.soft(scores)
        return (weights @ v).transpose(1, 2)
""",
        """\
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask.to(q.dtype), scale=self.scale
        ).transpose(1, 2)
""",
    ),
    _of(  # one mask always, one where it is given
        """\
        scores = q @ k.mT * self.scale
        scores = scores.masked_fill(self.low[:T, :T] == 0, float("-inf"))
        if mask is not None:
            mask = mask[:, None, None]
            scores = scores.masked_fill(~mask, -torch.inf)
        return F.dropout(F.softmax(scores, -1), 0.1, self.training) @ v
""",
        """\
        if mask is not None:
            mask = mask[:, None, None]
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=(self.low[:T, :T] != 0) & mask if mask is not None else self.low[:T, :T] != 0,
            dropout_p=0.1 if self.training else 0.0,
            scale=self.scale,
        )
""",
    ),
    _of(  # the weights are returned
        """\
        weights = F.softmax(q @ k.mT * self.scale, dim=-1)
        return weights @ v, weights
"""
    ),
    _of(  # and kept
        """\
        self.weights = weights = F.softmax(q @ k.mT * self.scale, dim=-1)
        return weights @ v
"""
    ),
    _of(  # and a loss is made of them
        """\
        weights = F.softmax(q @ k.mT * self.scale, dim=-1)
        self.entropy = (weights * weights.log()).sum()
        return weights @ v
"""
    ),
    _of(  # the scale is learned
        """\
        return F.softmax(q @ k.mT * self.temperature, dim=-1) @ v
"""
    ),
    _of(  # hidden scores are not so small as to count for nothing
        """\
        scores = (q @ k.mT * self.scale).masked_fill(mask == 0, -100)
        return F.softmax(scores, dim=-1) @ v
"""
    ),
    _of(  # -10000 may be what a whole row has
        """\
        scores = (q @ k.mT * self.scale).masked_fill(mask == 0, -1e4)
        return F.softmax(scores, dim=-1) @ v
"""
    ),
    _of(  # not over the last dimension
        """\
        return F.softmax(q @ k.mT * self.scale, dim=1) @ v
"""
    ),
    _of(  # scaled after the bias
        """\
        return F.softmax((q @ k.mT + mask) * self.scale, dim=-1) @ v
"""
    ),
    _of(  # weights that are changed after the softmax
        """\
        weights = F.softmax(q @ k.mT * self.scale, dim=-1)
        weights = weights * mask
        return weights @ v
"""
    ),
    _of(  # the keys are others by then
        """\
        weights = F.softmax(q @ k.mT * self.scale, dim=-1)
        k = k + 1
        return weights @ v + k
"""
    ),
    _of(  # two ways
        """\
        scores = q @ k.mT * self.scale
        if mask is None:
            scores = scores * 2
        else:
            scores = scores + mask
        return F.softmax(scores, dim=-1) @ v
"""
    ),
    _of(  # no attention
        """\
        return self.soft(q @ k.mT)
"""
    ),
]
