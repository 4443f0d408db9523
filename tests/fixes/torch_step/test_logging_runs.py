"""Loops whose sums and counts stay on the device give the numbers they gave."""

from __future__ import annotations

from typing import Any

import pytest

from rewriting import changed, executed, finding_of, marked, result, script_of
from trainperf.fixes import by_id
from trainperf.fixes.torch_step.step_logging import DETACH, SELDOM

torch = pytest.importorskip("torch")

LOOP = """\
import torch


def epoch(loader, shown):
    total, correct, seen = 0.0, 0, 0
    for x, y in ▸loader◂:
        loss = ((x - y) ** 2).mean()
        total += ▸loss.item()◂ * len(x)
        correct += ▸(x.round() == y).sum().item()◂
        seen += len(x)
        shown.append(▸float(loss)◂)
    return total / seen, f"{100 * correct / seen:.2f}"
"""


def given(text: str) -> tuple[Any, list[float]]:
    """What the loop returns, and what it shows."""
    space = executed(text)
    torch.manual_seed(5)
    loader = [(torch.rand(8) * 2, torch.randint(3, (8,)).float()) for _ in range(9)]
    shown: list[float] = []
    return space["epoch"](loader, shown), shown


def test_the_numbers_are_the_same() -> None:
    script, sites = script_of(LOOP)
    loop, sums = sites[0], sites[1:-1]
    fix = by_id()["torch_step_logging"]
    finding = finding_of(
        fix,
        title="",
        text="",
        bound=None,
        bound_basis="",
        where=(*sums, loop),
        data={"edits": [DETACH] * 2, "loop": 2},
    )
    fix.rewrite(script, finding)
    text = changed(script)
    before, after = given(marked(LOOP)[0]), given(text)

    assert ".item()" not in text
    assert after[0][1:] == before[0][1:], "counts and lists to the last digit"
    assert after[0][0] == pytest.approx(before[0][0], rel=1e-6)
    assert [type(each) for each in after[0]] == [type(each) for each in before[0]]


def test_an_edit_that_cannot_be_made_whole_is_not_begun() -> None:
    text = (
        "total = 0.0\nfor x in ▸loader◂:\n    total += ▸loss.item()◂\n"
        "    bar.set_postfix(mean=total)\n    history.append(total)\n    print(▸loss.item()◂)\n"
    )
    script, sites = script_of(text)
    fix = by_id()["torch_step_logging"]
    finding = finding_of(
        fix,
        title="",
        text="",
        bound=None,
        bound_basis="",
        where=(sites[1], sites[2], sites[0]),
        data={"edits": [DETACH, SELDOM], "loop": 2},
    )
    fix.rewrite(script, finding)

    assert result(script) == marked(text)[0].replace(
        "for x in loader", "for step, x in enumerate(loader)"
    ).replace("    print(", "    if step % 50 == 0:\n        print(")
