"""Which optimizers and backward calls of PyTorch make up a loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kit.child import Watcher, watching
from kit.processes import soon
from trainperf.child.torch import hooks
from trainperf.child.torch.loops import TorchLoops


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    yield from watching()


@pytest.fixture
def loops(watcher) -> TorchLoops:
    return TorchLoops(watcher)


def sgd(count: int = 1) -> Any:
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(3)) for _ in range(count)], lr=0.1)


def test_optimizers_that_are_gone_are_forgotten(loops):
    kept = sgd()
    loops.stepped(kept)
    loops.stepped(sgd())
    assert soon(lambda: loops.optimizers == [kept])


def test_what_happens_in_another_thread_or_while_off_is_not_the_loops(loops, watcher):
    assert not loops.passive()
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(loops.passive()))
    thread.start()
    thread.join()
    assert seen == [True]
    watcher.off = True
    assert loops.passive()


@pytest.mark.parametrize("ended", [0, 1])
def test_a_schedule_that_is_over_keeps_its_last_rate_where_the_loop_goes_on_for_us(
    loops: Any, watcher: Any, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    module = torch.optim.lr_scheduler
    monkeypatch.setattr(module.OneCycleLR, "get_lr", module.OneCycleLR.get_lr)
    hooks.watch_schedules(loops, module)
    watcher.driver = SimpleNamespace(epochs_ended=ended, interrupted=lambda: None)
    optimizer = sgd()
    schedule = module.OneCycleLR(optimizer, max_lr=0.1, total_steps=4)
    rates = []
    for _ in range(4):
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr())
    optimizer.step()
    if ended:
        schedule.step()
        assert schedule.get_last_lr() == rates[-1]
        assert len({tuple(one) for one in rates}) > 2
    else:
        with pytest.raises(ValueError, match="Tried to step"):
            schedule.step()
