"""The user's own compilations are noted as they happen, with PyTorch's words and his lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.utils

from kit.child import Watcher, watching
from trainperf.child.torch.hooks import watch_breaks, watch_calls, watch_metrics
from trainperf.child.torch.loops import TorchLoops


@pytest.fixture
def watcher(monkeypatch) -> Iterator[Watcher]:
    """A process that sees what TorchDynamo does; the hooks go with the test."""
    from torch._dynamo import eval_frame, symbolic_convert, utils

    translator: Any = symbolic_convert.InstructionTranslatorBase
    logs_breaks = translator if hasattr(translator, "log_graph_break") else symbolic_convert

    at_once = getattr(utils, "_METRICS_CONTEXT", None)
    ends = (at_once, "_on_exit") if at_once else (utils, "record_compilation_metrics")

    torch._dynamo.reset()
    hooked = (
        (watch_calls, eval_frame, eval_frame.OptimizeContext, "__call__"),
        (watch_metrics, utils, *ends),
        (watch_breaks, symbolic_convert, logs_breaks, "log_graph_break"),
    )
    # made once for a thread, with what then stood there
    monkeypatch.setattr(utils, "_metrics_context_tls", type("Own", (), {})(), raising=False)
    for made in watching():
        loops = TorchLoops(made)
        for watch, module, owner, name in hooked:
            monkeypatch.setattr(owner, name, getattr(owner, name))
            watch(loops, module)
        yield made
    torch._dynamo.reset()


class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.inner(x).relu()


class Counting(Plain):
    seen = 0

    def forward(self, x: Any) -> Any:
        self.seen += 1
        return super().forward(x) * self.seen


class Asking(Plain):
    def forward(self, x: Any) -> Any:
        x = super().forward(x)
        if x.mean().item() > 100:
            x = x / 2
        for _ in range(2):
            x = x + x.sum().item()
        return x


def train(model: Any, lengths: list[int]) -> None:
    for length in lengths:
        model(torch.ones(length, 4)).sum().backward()


def line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if line.strip() == text)


TELLS_WHY = "recompile_reason" in torch._dynamo.utils.CompilationMetrics.__dataclass_fields__
"""PyTorch 2.6 says neither why it compiles again, nor that it leaves a function alone."""


@pytest.mark.skipif(not TELLS_WHY, reason="this PyTorch does not say why it compiles again")
def test_a_number_that_the_model_counts_is_told_until_pytorch_gives_up(watcher):
    train(torch.compile(Counting(), backend="eager"), [8] * 12)
    again = [one for one in watcher.record.of("torch_compilation") if one["reason"]]
    assert "seen" in again[-1]["reason"]
    assert "\n" not in again[-1]["reason"]
    assert [one["limit"] for one in again] == [False] * (len(again) - 1) + [True]
    assert again[-1]["where"]["file"] == __file__


def test_the_lines_at_which_graphs_end_are_told_with_the_reason(watcher):
    train(torch.compile(Asking(), backend="eager"), [8])
    found = {one["where"]["line"]: one for one in watcher.record.of("torch_graph_break")}
    asks, loops = line_of("if x.mean().item() > 100:"), line_of("x = x + x.sum().item()")
    assert set(found) == {asks, loops}
    assert "item" in found[asks]["reason"]
    assert found[asks]["where"]["function"] == found[loops]["where"]["function"] == "forward"
    assert not found[asks]["skips"]
    assert found[loops]["skips"] is TELLS_WHY
