"""Trainings in float64 that were made float32 run, and lose what they lost to seven digits."""

from __future__ import annotations

from typing import Any

import pytest

from rewriting import changed, executed, marked, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.precision.torch_float64 import to_float32

torch = pytest.importorskip("torch")

HEAD = """\
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(3)
xs, ys = rng.random((32, 5)), rng.random((32, 1))
"""
LOOP = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for x, y in ▸loader◂:
    loss = criterion(▸model(x)◂, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
PAIRS = "loader = [(torch.from_numpy(xs[i:i + 8]), {}) for i in range(0, 32, 8)]\n"
NUMBERS, LABELS = (
    "torch.from_numpy(ys[i:i + 8])",
    "torch.from_numpy((ys[i:i + 8, 0] * 2).astype(int))",
)
NET = "torch.manual_seed(1)\nmodel = ▸nn.Linear(5, {})◂{}\n"

SCRIPTS = {
    "a model that is made double": (
        HEAD + PAIRS.format(NUMBERS) + NET.format(1, ".double()") + "criterion = nn.MSELoss()\n",
        "all",
    ),
    "labels that are whole numbers": (
        HEAD
        + PAIRS.format(LABELS)
        + NET.format(2, "")
        + "model.double()\ncriterion = nn.CrossEntropyLoss()\n",
        "first",
    ),
    "a default type": (
        HEAD
        + "torch.set_default_dtype(torch.float64)\n"
        + PAIRS.format(NUMBERS)
        + NET.format(1, "")
        + "criterion = nn.MSELoss()\n",
        "all",
    ),
    "arrays that are made double": (
        HEAD
        + "xs, ys = xs.astype(np.float64), ys.astype('float64')\n"
        + PAIRS.format(NUMBERS)
        + NET.format(1, ".to(torch.double)")
        + "criterion = nn.MSELoss()\n",
        "all",
    ),
}


TESTED = """
def tested(net, batches):
    return [net(batch[0]).mean().item() for batch in batches]


losses += tested(model, loader)
for turn in range(2):
    losses.append(model(torch.from_numpy(xs[turn])).mean().item())
for number, (x, _) in zip(range(9), loader):
    losses.append(number + model(x).mean().item())
"""


def rewritten(text: str, batch: str) -> str:
    """The script in float32."""
    script, (built, loop, call) = script_of(text)
    to_float32(script, built, loop, call, batch)
    return changed(script)


def trained(text: str) -> tuple[list[float], Any]:
    """The losses of a script, and the type of its weights."""
    try:
        space = executed(text)
    finally:
        torch.set_default_dtype(torch.float32)
    return space["losses"], next(space["model"].parameters()).dtype


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_trains_in_float32(name: str) -> None:
    head, batch = SCRIPTS[name]
    text = head + LOOP + TESTED
    (before, was), (after, new) = trained(marked(text)[0]), trained(rewritten(text, batch))

    assert (was, new) == (torch.float64, torch.float32)
    assert after != before
    if "set_default_dtype" not in head:  # which makes the first weights others
        assert after == pytest.approx(before, rel=1e-4)


def test_it_says_where_nothing_makes_it_so() -> None:
    with pytest.raises(CannotRewrite, match="makes it float64"):
        rewritten(NET.format(1, "") + LOOP, "all")
