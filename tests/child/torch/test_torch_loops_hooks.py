"""Which optimizers and backward calls of PyTorch make up a loop."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from looping import Watcher, watching  # noqa: E402
from processes import soon  # noqa: E402
from trainperf.child.torch import hooks  # noqa: E402
from trainperf.child.torch.loops import WITHOUT_OPTIMIZER, TorchLoops  # noqa: E402


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    yield from watching()


@pytest.fixture
def loops(watcher) -> TorchLoops:
    return TorchLoops(watcher)  # type: ignore[arg-type]


def sgd(count: int = 1) -> Any:
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(3)) for _ in range(count)], lr=0.1)


def test_an_update_is_counted_for_each_step_of_an_optimizer(loops):
    one, other = sgd(), sgd()
    for _ in range(3):
        loops.stepped(one)
        loops.stepped(other)
    assert loops.updates == 6
    assert loops.optimizers == [one, other]


def test_optimizers_that_are_gone_are_forgotten(loops):
    kept = sgd()
    loops.stepped(kept)
    loops.stepped(sgd())
    assert soon(lambda: loops.optimizers == [kept])


def test_an_optimizer_in_the_place_of_one_that_is_gone_is_seen(loops):
    """Python gives its number to the next object: a loop may make one for each epoch."""
    first = sgd()
    loops.stepped(first)
    second = sgd()
    loops._optimizers[id(second)] = loops._optimizers.pop(id(first))
    del first
    gc.collect()
    loops.stepped(second)
    assert loops.optimizers == [second]


def test_without_an_optimizer_every_backward_call_is_an_update(loops):
    for _ in range(WITHOUT_OPTIMIZER):
        loops.backward_ended()
    assert loops.updates == 0
    for _ in range(5):
        loops.backward_ended()
    assert loops.updates == 5


def test_with_an_optimizer_backward_calls_are_no_updates(loops):
    loops.optimizers_built = 1
    for _ in range(20):
        loops.backward_ended()
    assert loops.updates == 0


def test_once_an_optimizer_stepped_backward_calls_are_no_updates_any_more(loops):
    for _ in range(WITHOUT_OPTIMIZER + 2):
        loops.backward_ended()
    loops.stepped(sgd())
    before = loops.updates
    loops.backward_ended()
    assert loops.updates == before


def test_backward_calls_of_a_larger_step_are_its_own(loops):
    loops.applying = 1
    for _ in range(20):
        loops.backward_ended()
    assert loops.updates == 0


def test_backward_calls_without_an_optimizer_drive_a_loop(loops, watcher):
    for _ in range(WITHOUT_OPTIMIZER + 10):
        watcher.clock.tick()
        loops.backward_ended()
    assert watcher.driver.kind == "update"
    assert watcher.driver.updates_per_step == 1


def test_what_happens_in_another_thread_or_while_off_is_not_the_loops(loops, watcher):
    assert not loops.passive()
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(loops.passive()))
    thread.start()
    thread.join()
    assert seen == [True]
    watcher.off = True
    assert loops.passive()


def test_a_graph_is_told_once_when_it_was_compiled(loops, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert not loops.compiled()
    counters = {"stats": {}}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters=counters))
    assert not loops.compiled()
    counters["stats"]["unique_graphs"] = 2
    assert loops.compiled()
    assert not loops.compiled()
    counters["stats"]["unique_graphs"] = 3
    assert loops.compiled()


# ----------------------------------------------------------------- losses, in legs


def written(watcher: Watcher, kind: str = "loss") -> dict[int, float]:
    watcher.losses.flush()
    events = [event for event in watcher.record.of("losses") if event["kind"] == kind]
    return {u: v for event in events for u, v in zip(event["u"], event["v"], strict=True)}


def step(loops: TorchLoops, optimizer: Any, *losses: float) -> None:
    for loss in losses:
        loops.backward_begins(torch.tensor(loss))
        loops.backward_ended()
    optimizer.step()
    loops.stepped(optimizer)


def test_the_loss_of_an_update_is_that_of_its_first_backward_call(loops, watcher, leg):
    optimizer = sgd()
    for number in range(4):
        step(loops, optimizer, number + 0.5, 100.0, 200.0)
    assert written(watcher) == {1: 0.5, 2: 1.5, 3: 2.5, 4: 3.5}


def test_two_optimizers_count_by_the_first(loops, watcher, leg):
    critic, generator = sgd(), sgd()
    for number in range(3):
        step(loops, critic, float(number))
        step(loops, generator, 100.0)
    assert written(watcher) == {1: 0.0, 2: 1.0, 3: 2.0}


def test_a_closure_that_is_called_often_gives_the_loss_it_began_with(loops, watcher, leg):
    optimizer, loops.optimizers_built = sgd(), 1
    for number in range(2):
        step(loops, optimizer, *[number + 1 / (turn + 1) for turn in range(5)])
    assert written(watcher) == {1: 1.0, 2: 2.0}


def test_a_loop_without_an_optimizer_has_its_losses(loops, watcher, leg):
    for number in range(WITHOUT_OPTIMIZER + 3):
        loops.backward_begins(torch.tensor(float(number)))
        loops.backward_ended()
    values = list(written(watcher).values())
    assert len(values) == 3
    assert values[-1] == WITHOUT_OPTIMIZER + 2


def test_weights_are_summed_at_updates_one_two_four(loops, watcher, leg):
    optimizer = sgd(2)
    for _ in range(8):
        step(loops, optimizer, 1.0)
    assert written(watcher, "weights") == {1: 6.0, 2: 6.0, 4: 6.0}


def test_weights_are_summed_where_no_loss_can_be_seen(loops, watcher, leg):
    optimizer = sgd()
    for _ in range(9):
        loops.stepped(optimizer)
    assert written(watcher, "weights") == {1: 3.0, 2: 3.0, 4: 3.0, 9: 3.0}


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
