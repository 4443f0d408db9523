"""An evaluation is what passes from `eval()` to `train()` without an update."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kit.child import Watcher
from trainperf.child.process.patching import undo
from trainperf.child.torch.hooks import Evaluations, watch_dynamo


def made() -> Any:
    class Module:
        training = True

        def train(self, mode: bool = True) -> Any:
            self.training = mode
            return self

        def eval(self) -> Any:
            return self.train(False)

        def register_forward_pre_hook(self, hook: Any) -> Any:
            return SimpleNamespace(remove=lambda: None)

    return SimpleNamespace(Module=Module)


@pytest.fixture
def loops() -> Any:
    watcher = Watcher()
    main = threading.main_thread().ident
    return SimpleNamespace(process=watcher, training=watcher, updates=0, main=main)


@pytest.fixture
def module(loops: Any) -> Any:
    found = made()
    Evaluations(loops, found)
    return found


def recorded(loops: Any) -> list[Any]:
    found: list[Any] = loops.process.record.of("evaluation")
    return found


def test_a_model_is_let_alone_while_it_trains(loops: Any, module: Any) -> None:
    before = vars(module.Module)["train"]
    model = module.Module()
    for _ in range(2):
        model.eval()
        assert vars(module.Module)["train"] is not before
        model.train()
        assert vars(module.Module)["train"] is before
        model.train()
    assert len(recorded(loops)) == 2


def test_a_model_that_trains_on_in_evaluation_mode_is_not_timed(loops: Any, module: Any) -> None:
    model = module.Module()
    model.eval()
    loops.updates += 1
    model.train()
    assert recorded(loops) == []


def test_a_model_is_left_as_it_was_if_its_evaluation_never_ends(loops: Any) -> None:
    torch = pytest.importorskip("torch")
    Evaluations(loops, torch.nn)
    backbone, head = torch.nn.Linear(3, 3), torch.nn.Linear(3, 2)
    try:
        backbone.eval()
        backbone(torch.ones(1, 3))
        assert not backbone._forward_pre_hooks
        backbone.eval()
        loops.updates += 1
        head.eval()
        assert not backbone._forward_pre_hooks
    finally:
        head.train()
        undo(torch.nn.Module, "eval")


def test_a_part_of_a_compiled_model_is_compiled_as_if_it_were_not_watched(loops: Any) -> None:
    torch = pytest.importorskip("torch")
    watch_dynamo(loops, pytest.importorskip("torch._dynamo.trace_rules"))
    part = torch.nn.Linear(3, 3)
    whole = torch.compile(
        torch.nn.Sequential(part, torch.nn.ReLU()), backend="eager", fullgraph=True
    )
    Evaluations(loops, torch.nn)
    try:
        part.eval()
        whole(torch.ones(1, 3))
        part.train()
    finally:
        undo(torch.nn.Module, "eval")
    assert not part._forward_pre_hooks
    assert not loops.process.record.of("torch_evaluation")
