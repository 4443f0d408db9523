"""Loops rewritten for autocast train as they did before, on this machine's CPU."""

from __future__ import annotations

import warnings

import pytest

from rewriting import executed, result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes import by_id
from trainperf.fixes.precision._autocast_edits import put_autocast

torch = pytest.importorskip("torch")

BFLOAT16 = {"device": "cpu", "dtype": "bfloat16", "scaler": "", "clip": False}
FLOAT16 = {**BFLOAT16, "dtype": "float16", "scaler": 'amp.GradScaler("cpu")'}

START = """\
import torch

torch.manual_seed(0)
x_all = torch.randn(64, 8)
y_all = (x_all.sum(1) > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
criterion = torch.nn.CrossEntropyLoss()
loader = list(zip(x_all.split(8), y_all.split(8)))
losses, types = [], []
model[2].register_forward_hook(lambda _, __, out: types.append(out.dtype))

"""

PLAIN = """\
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        out = ▸model(x)◂
        loss = criterion(out, y)
        ▸loss.backward()◂
        ▸optimizer.step()◂
        losses.append(loss.item())
"""
ONE_STATEMENT = """\
def train_epoch():
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(
            ▸model(x)◂,
            y,
        )
        ▸loss.backward()◂
        ▸optimizer.step()◂
        losses.append(loss.item())

for epoch in range(3):
    train_epoch()
"""
ACCUMULATED = """\
def main():
    for epoch in range(3):
        for i, (x, y) in enumerate(loader):
            loss = criterion(▸model(x)◂, y) / 2
            ▸loss.backward()◂
            losses.append(loss.item())
            if (i + 1) % 2 == 0:
                ▸optimizer.step()◂
                optimizer.zero_grad()

main()
"""
CLIPPED = """\
def main():
    for epoch in range(3):
        for i, (x, y) in enumerate(loader):
            loss = criterion(▸model(x)◂, y)
            ▸(loss / 2).backward()◂
            losses.append(loss.item())
            if (i + 1) % 2 == 0:
                ▸torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2)◂
                ▸optimizer.step()◂
                optimizer.zero_grad()

main()
"""
HELPER = """\
def loss_of(x, y):
    out = ▸model(x)◂
    return criterion(out, y)

for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        ▸loss.backward()◂
        ▸optimizer.step()◂
        losses.append(loss.item())
"""
RETURNS_LOSS = """\
from types import SimpleNamespace

def hf(inputs, labels):
    return SimpleNamespace(loss=criterion(model(inputs), labels))

for epoch in range(3):
    for x, y in loader:
        batch = {"inputs": x, "labels": y}
        loss = ▸hf(**batch)◂.loss
        optimizer.zero_grad()
        ▸loss.backward()◂
        ▸optimizer.step()◂
        losses.append(loss.item())
"""
CONTEXT = """\
from contextlib import nullcontext

ctx = nullcontext()
scaler = torch.amp.GradScaler("cpu", enabled=False)
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        with ctx:
            out = ▸model(x)◂
            loss = criterion(out, y)
            loss = loss / 2
        losses.append(loss.item())
        ▸scaler.scale(loss).backward()◂
        if i % 2 == 1:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
SWITCHED_OFF = """\
amp = False
for epoch in range(3):
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.float16, enabled=amp):
            out = ▸model(x)◂
            loss = criterion(out, y)
        optimizer.zero_grad()
        ▸loss.backward()◂
        optimizer.step()
        losses.append(loss.item())
"""
CHOSEN = """\
USE_AMP = False
scaler = torch.amp.GradScaler("cpu", enabled=USE_AMP)
for epoch in range(3):
    for x, y in loader:
        with torch.autocast(device_type=device, dtype=torch.bfloat16, enabled=USE_AMP):
            out = ▸model(x)◂
            loss = criterion(out, y)
        optimizer.zero_grad()
        ▸scaler.scale(loss).backward()◂
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
"""
OF_A_LIBRARY = """\
from types import SimpleNamespace

accelerator = SimpleNamespace(backward=lambda loss: loss.backward())
for epoch in range(3):
    for x, y in loader:
        out = ▸model(x)◂
        loss = criterion(out, y)
        accuracy = (out.argmax(1) == y).float().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
"""
CLOSURE = """\
for epoch in range(3):
    for x, y in loader:
        def closure():
            optimizer.zero_grad()
            loss = criterion(▸model(x)◂, y)
            ▸loss.backward()◂
            losses.append(loss.item())
            return loss
        optimizer.step(closure)
"""
UNSCALED = [CONTEXT, SWITCHED_OFF, OF_A_LIBRARY, CLOSURE]
LOOPS = [PLAIN, ONE_STATEMENT, ACCUMULATED, CLIPPED, HELPER, RETURNS_LOSS]


def trained(text: str) -> tuple[list[float], set[object], dict[str, object]]:
    """Run a script; return its losses, the types its model returned, its names."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names = executed(text, {"__name__": "__main__"})
    return names["losses"], set(names["types"]), names


@pytest.mark.parametrize("loop", UNSCALED)
def test_what_needs_no_scaler_is_rewritten_wherever_the_loss_is_made(loop):
    script, sites = script_of(START + loop)
    before, types, _ = trained((START + loop).replace("▸", "").replace("◂", ""))
    assert types == {torch.float32}
    fix = by_id()["torch_autocast"]
    finding = fix.finding(title="", text="", bound=None, bound_basis="", where=sites, data=BFLOAT16)

    fix.rewrite(script, finding)
    after, types, _ = trained(result(script))

    assert types == {torch.bfloat16}
    assert after == pytest.approx(before, rel=0.05)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_region_that_a_constant_turned_off_is_turned_on_there(dtype):
    """The scaler that goes by the same constant goes along."""
    text = 'device = "cpu"\n' + START + CHOSEN.replace("bfloat16", dtype)
    script, sites = script_of(text)
    before, types, _ = trained(text.replace("▸", "").replace("◂", ""))
    assert types == {torch.float32}
    data = {**BFLOAT16, "dtype": dtype}
    fix = by_id()["torch_autocast"]
    finding = fix.finding(title="", text="", bound=None, bound_basis="", where=sites, data=data)

    fix.rewrite(script, finding)
    edited = result(script)
    assert edited == text.replace("▸", "").replace("◂", "").replace("AMP = False", "AMP = True")
    after, types, names = trained(edited)
    assert types == {getattr(torch, dtype)}
    assert names["scaler"].is_enabled()
    assert after == pytest.approx(before, rel=0.05)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("data", [BFLOAT16, FLOAT16], ids=["bfloat16", "float16"])
def test_a_rewritten_loop_trains_in_16_bits_to_nearly_the_same_losses(loop, data):
    script, sites = script_of(START + loop)
    before, types, _ = trained((START + loop).replace("▸", "").replace("◂", ""))
    assert types == {torch.float32}
    data = {**data, "clip": bool(data["scaler"]) and len(sites) == 4}
    fix = by_id()["torch_autocast"]
    finding = fix.finding(title="", text="", bound=None, bound_basis="", where=sites, data=data)

    fix.rewrite(script, finding)
    text = result(script)
    after, types, names = trained(text)

    assert types == {getattr(torch, data["dtype"])}
    assert after == pytest.approx(before, rel=0.05)
    assert before[-1] < 0.8 * before[0]
    if data["scaler"]:
        assert text.count("GradScaler") == 1
        assert text.count("scaler.unscale_(optimizer)") == (len(sites) == 4)
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
