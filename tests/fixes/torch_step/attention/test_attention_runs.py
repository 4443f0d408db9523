"""Functions whose attention was put into one call compute what they computed before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rewriting import changed, executed, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention._edit import use_kernel
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
    "a triangle of what is hidden": Case(
        """
        n = q.shape[2]
        scores = q @ k.transpose(2, 3)
        hidden = self.hidden.bool()[:n, :n]
        scores.masked_fill_(hidden, -torch.inf)
        weights = torch.softmax(scores / k.shape[-1] ** 0.5, dim=-1)
        return weights @ v""",
        "is_causal=True)",
        'self.register_buffer("hidden", torch.triu(torch.ones(9, 9), diagonal=1))',
    ),
    "a triangle made in place": Case(
        """
        T = q.size(2)
        later = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
        scores = torch.matmul(q, k.transpose(2, 3)) * 0.3 + later
        scores = F.softmax(scores.float(), dim=-1).type_as(q)
        output = torch.matmul(scores, v)
        return output""",
        "is_causal=True, scale=0.3)",
    ),
    "a triangle of more keys than queries": Case(
        """
        T, S = q.size(2), k.size(2)
        scores = q @ k.mT * 0.3
        scores = scores.masked_fill(~torch.ones(T, S).tril().bool(), -np.inf)
        return scores.softmax(-1) @ v""",
        "attn_mask=torch.ones(T, S).tril().bool(), scale",
    ),
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
    "the lowest number of the type": Case(
        """
        sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        low = -torch.finfo(sim.dtype).max
        sim = sim.masked_fill(mask == 0, low)
        attn = sim.softmax(dim=-1)
        return torch.einsum("b h i j, b h j d -> b h i d", attn, v)""",
        "torch.finfo(q.dtype).min",
        "self.scale = 4 ** -0.5",
        mask="whole rows",
    ),
    "a mask by `where`": Case(
        """
        scores = torch.where(mask, q @ k.mT, LOW)
        return scores.softmax(-1) @ v""",
        "torch.where(mask, 0.0, LOW)",
        mask="seen as bool",
    ),
    "a mask by `where` of -inf": Case(
        """
        scores = torch.where(mask == 0, float("-inf"), q @ k.mT)
        return scores.softmax(-1) @ v""",
        "attn_mask=mask != 0",
    ),
    "a mask and a bias": Case(
        """
        scores = q @ k.mT
        scores = scores * self.head_dim ** -0.5
        scores = scores - 0.1 * mask
        scores = scores.masked_fill(torch.logical_not(mask.bool()), LOW)
        return F.softmax(scores, dim=-1) @ v""",
        "torch.where(torch.logical_not(mask.bool()), LOW, -(0.1 * mask)).to(q.dtype)",
        "self.head_dim = 4",
    ),
    "two masks, one at times": Case(
        """
        T = q.size(2)
        scores = (q @ k.mT).div(self.d ** 0.5)
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
            scores = scores.masked_fill(torch.ones(T, T).triu(1) == 1, -1e4)
        return F.softmax(scores, dim=-1) @ v""",
        "is_causal=bool(self.causal)",
        "self.causal = True",
    ),
    "a triangle and its mask, both at times": Case(
        """
        n = q.shape[2]
        scores = q @ k.transpose(2, 3) * 0.5

        if not self.whole:
            # only as far as it goes
            hidden = self.hidden.bool()[:n, :n]
            # hide it
            scores.masked_fill_(hidden, -torch.inf)

        weights = torch.softmax(scores, dim=-1)
        return weights @ v""",
        "is_causal=not self.whole",
        'self.whole = False; self.register_buffer("hidden", torch.triu(torch.ones(9, 9), 1))',
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
    "a scale that is a tensor of one number": Case(
        """
        energy = torch.matmul(q, k.permute(0, 1, 3, 2)) / self.scale
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        attention = torch.softmax(energy, dim=-1)
        return torch.matmul(self.dropout(attention), v)""",
        "scale=1 / (self.d ** 0.5)",
        "self.d = 4; self.dropout = nn.Dropout(0.0); "
        "self.scale = torch.sqrt(torch.FloatTensor([self.d]))",
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
    "values that come turned": Case(
        """
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        w_ = torch.bmm(q, k)
        w_ = w_ * (int(4) ** (-0.5))
        w_ = torch.nn.functional.softmax(w_, dim=2)
        v = v.reshape(2, 4, 6)
        w_ = w_.permute(0, 2, 1)
        h_ = torch.bmm(v, w_)
        return h_.reshape(2, 6, 4)""",
        "v.transpose(-2, -1).unsqueeze(0), scale=int(4) ** (-0.5)",
        rank=3,
    ),
    "values that come turned, in one": Case(
        """
        v = v.mT
        attention = self.softmax(torch.matmul(q, k.mT))
        return torch.matmul(v, attention.mT).mT""",
        ".transpose(-2, -1).mT",
        "self.softmax = nn.Softmax(dim=-1)",
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
    "the keys turned for good": Case(
        """
        k = k.permute(0, 1, 3, 2)
        scores = torch.matmul(q, k)
        scores /= 2.0
        return torch.matmul(nn.Softmax(dim=-1)(scores), v)""",
        "k.transpose(-2, -1)",
    ),
    "softmax and dropout in a row": Case(
        """
        sim = torch.einsum("b h i d, b h j d -> b h i j", q, k)
        sim = sim + mask
        attn = self.attend(sim)
        return torch.einsum("b h i j, b h j d -> b h i d", attn, v)""",
        "dropout_p=self.attend[1].p if self.training else 0.0",
        "self.attend = nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(0.0))",
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
