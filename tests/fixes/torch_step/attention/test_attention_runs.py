"""Functions whose attention was put into one call compute what they computed before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rewriting import changed, executed, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention.torch_sdpa import use_kernel
from trainperf.model import Site

torch = pytest.importorskip("torch")

HEAD = """\
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LOW = -1e30


"""


@dataclass(frozen=True)
class Case:
    """The body of `forward(self, q, k, v, mask=None)`, and what of the call it must have."""

    body: str
    has: str
    init: str = "pass"
    mask: str = "seen"
    rank: int = 4


CASES = {
    "a triangle": Case(
        """
        T = q.size(-2)
        att = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        att = att.masked_fill(self.tri[:T, :T] == 0, float("-inf"))
        return F.softmax(att, dim=-1) @ v""",
        "is_causal=True)",
        'self.register_buffer("tri", torch.tril(torch.ones(9, 9)))',
    ),
    **{
        hidden: Case(
            f"""
        T = q.size(-2)
        hidden = {hidden}
        scores = (q @ k.mT * 0.5).masked_fill(hidden, float("-inf"))
        return scores.softmax(-1) @ v""",
            "is_causal=True, scale=",
            'self.register_buffer("tri", torch.tril(torch.ones(9, 9)).bool())',
        )
        for hidden in (
            "~self.tri[:T, :T]",
            "self.tri[:T, :T].logical_not()",
            "torch.triu(torch.ones(T, T), diagonal=1).bool()",
        )
    },
    "keys of earlier calls": Case(
        """
        past = k[:, :, :2]
        k = torch.cat([past, k], dim=2)
        v = torch.cat([v[:, :, :2], v], dim=2)
        T, S = q.size(2), k.size(2)
        scores = q @ k.mT * 0.3
        scores = scores.masked_fill(self.tri[S - T : S, :S] == 0, float("-inf"))
        return scores.softmax(-1) @ v""",
        "attn_mask=self.tri[S - T : S, :S] != 0",
        'self.register_buffer("tri", torch.tril(torch.ones(19, 19)))',
    ),
    "a mask of rows that may be hidden whole": Case(
        """
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        p_attn = F.softmax(scores, dim=-1)
        return torch.matmul(p_attn, v)""",
        "torch.where(mask == 0, -1e9, 0.0).to(q.dtype) if mask is not None else None",
        mask="whole rows",
    ),
    "dimensions that move": Case(
        """
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        energy = torch.einsum("nqhd,nkhd->nhqk", [q, k])
        energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / (self.d ** (1 / 2)), dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, v])
        return out.transpose(1, 2)""",
        "q.transpose(1, 2)",
        "self.d = 4",
        mask="whole rows",
    ),
    "queries that are scaled before": Case(
        """
        q = q * self.scale
        attn = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        attn = self.attn_drop(attn)
        x = (attn @ v).reshape(2, -1)
        return x""",
        "scale=1.0",
        "self.scale = 4 ** -0.5; self.attn_drop = nn.Dropout(0.0)",
    ),
    "dropout at times": Case(
        """
        weights = F.softmax(q @ k.mT * 0.5, dim=-1)
        if self.training and self.rate > 0:
            weights = F.dropout(weights, p=self.rate)
        return weights @ v""",
        "dropout_p=self.rate if self.training and self.rate > 0 else 0.0",
        "self.rate = 0.0",
    ),
    "a triangle of more keys than queries": Case(
        """
        T, S = q.size(2), k.size(2)
        scores = q @ k.mT * 0.3
        scores = scores.masked_fill(~torch.ones(T, S).tril().bool(), -np.inf)
        return scores.softmax(-1) @ v""",
        "attn_mask=torch.ones(T, S).tril().bool(), scale",
    ),
    "the keys turned for good": Case(
        """
        k = k.permute(0, 1, 3, 2)
        scores = torch.matmul(q, k)
        scores /= 2.0
        return torch.matmul(nn.Softmax(dim=-1)(scores), v)""",
        "k.transpose(-2, -1)",
    ),
    "the keys turned before": Case(
        """
        k_t = k.transpose(2, 3)  # turned
        score = (q @ k_t) / math.sqrt(4)
        if mask is not None:
            score = score.masked_fill(mask == 0, -10000000000.0)
        score = self.softmax(score)
        v = score @ v
        return v""",
        "q, k, v,",
        "self.softmax = nn.Softmax(dim=-1)",
        mask="whole rows",
    ),
    "two masks, one at times": Case(
        """
        T = q.size(2)
        scores = q @ k.mT / self.d ** 0.5
        scores = scores.masked_fill(self.tri[:T, :T] == 0, float("-inf"))
        if mask is not None:
            scores = scores.masked_fill(mask.eq(0), float("-inf"))
        return F.softmax(scores, dim=-1) @ v""",
        "~mask.eq(0)",
        'self.d = 4; self.register_buffer("tri", torch.tril(torch.ones(9, 9)))',
        mask="first seen",
    ),
    "a triangle at times": Case(
        """
        T = q.size(2)
        scores = q @ k.mT * 0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(T, T).tril() == 0, -1e4)
        return F.softmax(scores, dim=-1) @ v""",
        "is_causal=bool(self.causal)",
        "self.causal = True",
    ),
    "a mask and a bias": Case(
        """
        scores = q @ k.mT
        scores = scores * self.head_dim ** -0.5
        scores = scores + 0.1 * mask
        scores = scores.masked_fill(~mask.bool(), LOW)
        return F.softmax(scores, dim=-1) @ v""",
        "torch.where(~mask.bool(), LOW, 0.1 * mask).to(q.dtype)",
        "self.head_dim = 4",
    ),
    "as BERT has it": Case(
        """
        attention_scores = torch.matmul(q, k.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        if mask is not None:
            attention_scores = attention_scores + mask
        attention_probs = nn.Softmax(dim=-1)(attention_scores)
        attention_probs = self.dropout(attention_probs)
        context_layer = torch.matmul(attention_probs, v)
        return context_layer.permute(0, 2, 1, 3).contiguous()""",
        "attn_mask=mask.to(q.dtype) if mask is not None else None",
        "self.attention_head_size = 4; self.dropout = nn.Dropout(0.0)",
    ),
    "three dimensions": Case(
        """
        B, T, C = q.shape
        wei = q @ k.transpose(-2, -1) * C ** -0.5
        wei = wei.masked_fill(self.tri[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        v = v + 1
        return self.drop(wei) @ v""",
        ".squeeze(0)",
        'self.drop = nn.Dropout(0.0); self.register_buffer("tri", torch.tril(torch.ones(9, 9)))',
        rank=3,
    ),
    "three dimensions and a mask for each sample": Case(
        """
        scores = torch.bmm(q, k.transpose(1, 2)) * 0.3
        scores = scores + mask
        return torch.bmm(torch.softmax(scores, dim=2), v)""",
        "q.unsqueeze(0)",
        mask="of samples",
        rank=3,
    ),
    "a head of a small GPT": Case(
        """
        B, T, C = q.shape
        k = k + self.key(q)
        q = self.query(q)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        return wei @ v""",
        "q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), is_causal=True ).squeeze(0)",
        "torch.manual_seed(1); self.key = nn.Linear(4, 4); self.query = nn.Linear(4, 4); "
        'self.register_buffer("tril", torch.tril(torch.ones(9, 9)))',
        rank=3,
    ),
}


def of(case: Case) -> str:
    """The module of a case."""
    return (
        f"{HEAD}class Attention(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        {case.init}\n\n"
        f"    def forward(self, q, k, v, mask=None):{case.body}\n"
    )


def rewritten(text: str) -> str:
    """The module with its attention in one call."""
    script, _ = script_of(text)
    line = text[: text.index("    def forward")].count("\n") + 1
    use_kernel(script, Site("train.py", line, "forward", end_line=line))
    return changed(script)


def masks(kind: str) -> Any:
    """A mask for 2 samples of 6 positions, 0 where a score is hidden."""
    seen = torch.ones(2, 1, 1, 6)
    seen[1, ..., 4:] = 0
    rows = torch.ones(2, 1, 6, 6)
    rows[0, 0, 3] = 0
    first = torch.ones(2, 1, 1, 6)
    first[0, ..., 3:] = 0
    added = torch.zeros(2, 6, 6)
    added[1, :, 2:] = -5.0
    return {
        "seen": seen,
        "seen as bool": seen.bool(),
        "whole rows": rows,
        "first seen": first,
        "of samples": added,
    }[kind]


def computed(text: str, case: Case) -> list[Any]:
    """What a module gives, and the gradients, in training and without."""
    space = executed(text)
    module = space["Attention"]()
    found = []
    for mode in (module.train, module.eval):
        mode()
        torch.manual_seed(3)
        shape = (2, 3, 6, 4)[: 1 if case.rank == 3 else 4] + ((6, 4) if case.rank == 3 else ())
        q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
        out = module(q, k, v, mask=masks(case.mask))
        weights = torch.randn(q.shape)
        if case.mask == "whole rows":  # of padding: what comes of it is not used
            weights[0, :, 3] = 0
        (out * weights.reshape(out.shape)).sum().backward()
        found += [out, q.grad, k.grad, v.grad]
    return found


@pytest.mark.parametrize("name", CASES)
def test_it_computes_the_same(name: str) -> None:
    case = CASES[name]
    before = of(case)
    after = rewritten(before)

    assert case.has in " ".join(after.split()), after
    body = after[after.index("def forward") :]
    assert "softmax" not in body
    for old, new in zip(computed(before, case), computed(after, case), strict=True):
        assert torch.isfinite(old).all()
        torch.testing.assert_close(new, old, rtol=1e-4, atol=1e-5)


def test_dropout_is_on_in_training_only() -> None:
    case = Case(
        "\n        return self.drop(torch.softmax(q @ k.mT * 0.5, -1)) @ v",
        "",
        "self.drop = nn.Dropout(0.4)",
    )
    before, after = computed(of(case), case), computed(rewritten(of(case)), case)

    assert not torch.allclose(before[0], after[0]), "it draws other numbers"
    torch.testing.assert_close(after[4], before[4])
    torch.testing.assert_close(after[5], before[5], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("w = torch.softmax(q @ k.mT, -1)\n        return w @ v, w", "are used in line 17"),
        ("w = torch.softmax(q @ k.mT, 1)\n        return w @ v", "not over the last dimension"),
        ("return torch.softmax(q @ k.mT, -1)", "its softmax is not one of scores"),
        ("return torch.softmax(q @ k.T, -1) @ v", "two dimensions"),
        (
            "s = torch.sqrt(torch.tensor(4.0))\n        return torch.softmax(q @ k.mT / s, -1) @ v",
            "may be a tensor",
        ),
        ("return torch.softmax(q @ k.mT * self.scale, -1) @ v", "may be a tensor"),
        (
            "for i in range(3):\n            w = torch.softmax(q @ k.mT, -1)\n        return w @ v",
            "not one of scores",
        ),
        (
            "w = q @ k.mT\n        w = self.drop2d(w.softmax(-1))\n        return w @ v",
            "self.drop2d",
        ),
    ],
)
def test_it_says_why_it_leaves_alone(body: str, reason: str) -> None:
    init = "self.scale = nn.Parameter(torch.ones(1)); self.drop2d = nn.Dropout2d()"
    with pytest.raises(CannotRewrite, match=reason):
        rewritten(of(Case(f"\n        {body}", "", init)))
