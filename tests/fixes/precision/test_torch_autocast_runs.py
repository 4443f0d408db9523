"""Loops rewritten for autocast train as they did before, on this machine's CPU."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from fixes.case_text import edited, runs
from rewriting import executed, result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.precision.torch_autocast import put_autocast

torch = pytest.importorskip("torch")

BFLOAT16 = {"device": "cpu", "dtype": "bfloat16", "scaler": "", "clip": False}
FLOAT16 = {**BFLOAT16, "dtype": "float16", "scaler": 'amp.GradScaler("cpu")'}
LOOPS = {title: source for title, (source, data) in runs("torch_autocast").items() if not data}
UNSCALED = {title: case for title, case in runs("torch_autocast").items() if case[1]}
"""Loops that need no scaler, or have their own."""


def trained(text: str) -> tuple[list[float], set[object], dict[str, object]]:
    """Run a script; return its losses, the types its model returned, its names."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names = executed(text, {"__name__": "__main__"})
    return names["losses"], set(names["types"]), names


@pytest.mark.parametrize(("before", "data"), UNSCALED.values(), ids=UNSCALED)
def test_what_needs_no_scaler_is_rewritten_wherever_the_loss_is_made(
    before: str, data: dict[str, Any]
) -> None:
    losses, types, _ = trained(before)
    assert types == {torch.float32}
    after, types, _ = trained(edited("torch_autocast", before, data))

    assert types == {getattr(torch, data["dtype"])}
    assert after == pytest.approx(losses, rel=0.05)


@pytest.mark.parametrize("before", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("data", [BFLOAT16, FLOAT16], ids=["bfloat16", "float16"])
def test_a_rewritten_loop_trains_in_16_bits_to_nearly_the_same_losses(
    before: str, data: dict[str, Any]
) -> None:
    losses, types, _ = trained(before)
    assert types == {torch.float32}
    clips = "clip_grad_norm_" in before
    text = edited("torch_autocast", before, {**data, "clip": bool(data["scaler"]) and clips})
    after, types, names = trained(text)

    assert types == {getattr(torch, data["dtype"])}
    assert after == pytest.approx(losses, rel=0.05)
    assert losses[-1] < 0.8 * losses[0]
    if data["scaler"]:
        assert text.count("GradScaler") == 1
        assert text.count("scaler.unscale_(optimizer)") == clips
        assert all(each.dtype == torch.float32 for each in names["model"].parameters())


def test_a_loss_without_a_name_gets_one_and_goes_backward_outside_of_autocast() -> None:
    text = """\
import torch

def train(loss):
    for x, y in loader:
        ▸criterion(▸model(x)◂, y).backward(retain_graph=True)◂
"""
    script, (backward, forward) = script_of(text)
    put_autocast(script, forward, backward, "cpu", "bfloat16")
    assert (
        result(script)
        == """\
import torch

def train(loss):
    for x, y in loader:
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            total_loss = criterion(model(x), y)
        total_loss.backward(retain_graph=True)
"""
    )


def test_a_backward_whose_statement_does_more_is_left_alone() -> None:
    script, (backward, forward) = script_of(
        "import torch\n\nfor x, y in loader:\n    print(▸criterion(▸model(x)◂, y).backward()◂)\n"
    )
    with pytest.raises(CannotRewrite):
        put_autocast(script, forward, backward, "cpu", "bfloat16")
