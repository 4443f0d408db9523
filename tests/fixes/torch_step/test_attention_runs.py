"""Functions whose attention was put into one call compute what they computed before."""

from __future__ import annotations

from typing import Any

import pytest

from fixes.case_text import edited, evidence_of, runs
from rewriting import executed
from trainperf.fixes import by_id

torch = pytest.importorskip("torch")

CASES = runs("torch_sdpa")
"""The text that the call must have and the kind of the mask stand in the data."""


def masks(kind: str) -> Any:
    """A mask for 2 samples of 6 positions, 0 where a score is hidden."""
    seen = torch.ones(2, 1, 1, 6)
    seen[1, ..., 4:] = 0
    rows = torch.ones(2, 1, 6, 6)
    rows[0, 0, 3] = 0
    return {"seen": seen, "whole rows": rows, "none": None}[kind]


def computed(text: str, mask: str) -> list[Any]:
    """What a module gives, and the gradients, in training and without."""
    module = executed(text)["Attention"]()
    found = []
    for mode in (module.train, module.eval):
        mode()
        torch.manual_seed(3)
        shape = (2, 6, 4) if mask == "none" else (2, 3, 6, 4)
        q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
        out = module(q, k, v, mask=masks(mask))
        weights = torch.randn(q.shape)
        if mask == "whole rows":  # of padding: what comes of it is not used
            weights[0, :, 3] = 0
        (out * weights.reshape(out.shape)).sum().backward()
        found += [out, q.grad, k.grad, v.grad]
    return found


@pytest.mark.parametrize(("before", "data"), CASES.values(), ids=CASES)
def test_it_computes_the_same(before: str, data: dict[str, Any]) -> None:
    after = edited("torch_sdpa", before, data)

    assert data["has"] in " ".join(after.split()), after
    assert "softmax" not in after[after.index("def forward") :]
    both = (computed(text, data["mask"]) for text in (before, after))
    for old, new in zip(*both, strict=True):
        assert torch.isfinite(old).all()
        torch.testing.assert_close(new, old, rtol=1e-4, atol=1e-5)


def test_dropout_is_on_in_training_only() -> None:
    source, data = CASES["queries that are scaled before"]
    source = source.replace("nn.Dropout(0.0)", "nn.Dropout(0.4)")
    before, after = (
        computed(text, "seen") for text in (source, edited("torch_sdpa", source, data))
    )

    for trained, evaluated in ((before[0], before[4]), (after[0], after[4])):
        assert not torch.allclose(trained, evaluated)
    torch.testing.assert_close(after[4], before[4])
    torch.testing.assert_close(after[5], before[5], rtol=1e-4, atol=1e-5)


def test_what_is_to_be_pasted_keeps_the_mask_and_the_dropout() -> None:
    cause = by_id()["torch_sdpa"].look(evidence_of("single_heads"))
    assert cause is not None
    (call,) = (line for line in cause.snippet.splitlines() if line.startswith("out = "))
    assert "attn_mask=mask, dropout_p=" in call
    assert "is_causal" not in call
