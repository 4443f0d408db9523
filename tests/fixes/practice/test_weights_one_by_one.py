"""Code that goes through the weights is known by its calls, and by the names in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.model import Evidence


def with_text(text: str) -> Evidence:
    """A loss in a Python loop, 21 calls for each of 59 tensors, whose dearest line says `text`."""
    evidence = evidence_of("ranking_loop | torch.optimizers[0].tensors = 59")
    first, *others = evidence.lines.lines
    lines = replace(evidence.lines, lines=(replace(first, text=text), *others))
    return replace(evidence, lines_=lines)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("total += F.relu(margin - score)", "small calls"),
        ("total += parameter.grad.norm()", "weights"),
        ("averages[name].lerp_(state_dict[name], 0.1)", "weights"),
    ],
)
def test_what_names_no_weights_does_not_go_through_them(text: str, kind: str) -> None:
    cause = by_id()["own_function"].look(with_text(text))
    assert cause is not None
    assert cause.own.kind == kind
    assert ("59 tensors of weights one by one, 21 calls for each" in cause.title) == (
        kind == "weights"
    )
