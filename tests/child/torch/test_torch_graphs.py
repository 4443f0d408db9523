"""CUDA graphs and updates within a backward, on a GPU that is none.

The stand-in for a graph runs the calls while they are captured, which CUDA would not, and
replays nothing: what is looked at is what is counted.
"""

from __future__ import annotations

import _thread
import functools
import sys
import threading
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from emulation import fake_cuda
from kit.child import Watcher, watching
from trainperf.child.torch import devices, hooks
from trainperf.child.torch.loops import TorchLoops


@pytest.fixture
def gpu(monkeypatch) -> fake_cuda.Cuda:
    made = fake_cuda.install(put=functools.partial(monkeypatch.setattr, raising=False))
    made.graphs(0.0)
    return made


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    yield from watching()


@pytest.fixture
def loops(watcher, monkeypatch) -> Any:
    """Loops whose hooks are set on PyTorch itself, and taken out with the test."""
    made = TorchLoops(watcher)
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    optimizer: Any = sys.modules["torch.optim.optimizer"]
    handles: list[Any] = []
    names = "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"
    stand_in: Any = ModuleType("torch.optim.optimizer")
    stand_in.Optimizer = type("Optimizer", (), {"__init__": lambda self: None})
    for name in names:

        def register(hook: Any, name: str = name) -> None:
            handles.append(getattr(optimizer, name)(hook))

        setattr(stand_in, name, register)
    hooks.see_backward(made, torch)
    hooks.watch_optimizers(made, stand_in)
    yield made
    for handle in handles:
        handle.remove()


def written(watcher: Watcher) -> dict[int, float]:
    watcher.losses.flush()
    return seen(watcher)


def seen(watcher: Watcher, kind: str = "loss") -> dict[int, float]:
    found = [event for event in watcher.record.of("losses") if event["kind"] == kind]
    return {u: v for event in found for u, v in zip(event["u"], event["v"], strict=True)}


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))


def step(model: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1)


# ----------------------------------------------------------- while a graph is captured


def test_what_is_captured_is_no_update(gpu, loops):
    model = network()
    optimizer = sgd(model)
    gpu.capturing = True
    assert loops.passive()
    for _ in range(5):
        step(model, optimizer)
    assert loops.updates == 0
    gpu.capturing = False
    step(model, optimizer)
    assert loops.updates == 1


def test_nothing_is_summed_copied_or_read_of_what_is_captured(gpu, loops, leg, monkeypatch):
    """At the first updates legs sum their weights, and of each they copy the loss."""
    model = network()
    optimizer = sgd(model)
    gpu.capturing = True
    called: list[str] = []
    for name in ("clone", "item", "__float__", "sum", "double"):
        monkeypatch.setattr(torch.Tensor, name, lambda self, *_, name=name: called.append(name))
    step(model, optimizer)
    leg._sum()  # there are no weights yet
    assert called == []


# ------------------------------------------------------------------ whole steps replayed


def test_the_losses_of_replayed_steps_are_those_that_each_replay_wrote(gpu, loops, leg, watcher):
    model = network()
    optimizer = sgd(model)
    cls = type("CUDAGraph", (torch.cuda.CUDAGraph,), {})  # takes the hooks
    devices.watch_graphs(loops, SimpleNamespace(CUDAGraph=cls))
    graph = cls()
    graph.capture_begin()
    loss = step(model, optimizer)
    graph.capture_end()
    for value in (3.0, 2.0, 1.0):
        loss.data.fill_(value)  # what a replay does
        graph.replay()
    assert written(watcher) == {1: 3.0, 2: 2.0, 3: 1.0}
    assert list(seen(watcher, "weights")) == [1, 2]


# -------------------------------------------------------------- updates within a backward


def in_engine(call: Any) -> None:
    """Run a call as autograd's device threads do: in one that Python's `threading` knows not."""
    done = threading.Event()

    def run() -> None:
        call()
        done.set()

    _thread.start_new_thread(run, ())
    assert done.wait(10)


def in_this_thread(call: Any) -> None:
    call()


def updates_itself(model: Any, run: Any) -> list[Any]:
    """One optimizer for each parameter, which steps when its gradient is there."""
    made = [torch.optim.SGD([one], lr=0.1) for one in model.parameters()]
    for one, optimizer in zip(model.parameters(), made, strict=True):

        def hook(parameter: Any, optimizer: Any = optimizer) -> None:
            run(optimizer.step)
            optimizer.zero_grad()

        one.register_post_accumulate_grad_hook(hook)
    return made


@pytest.mark.parametrize("run", [in_this_thread, in_engine])
def test_the_updates_within_a_backward_have_its_loss_and_all_weights(loops, leg, watcher, run):
    model = network()
    updates_itself(model, run)
    expected, weights = [], []
    for _ in range(2):
        loss = model(torch.ones(2, 4)).square().mean()
        expected.append(loss.item())
        loss.backward()
        weights.append(sum(one.abs().sum().item() for one in model.parameters()))
    leg.flush()
    assert seen(watcher) == pytest.approx(dict(enumerate(expected, 1)))
    assert seen(watcher, "weights") == pytest.approx(dict(enumerate(weights, 1)))


def test_an_optimizer_in_a_thread_of_the_scripts_is_none_of_the_loops(loops):
    model = network()
    optimizer = sgd(model)

    def aside(_: Any) -> None:
        thread = threading.Thread(target=optimizer.step)
        thread.start()
        thread.join()

    next(model.parameters()).register_post_accumulate_grad_hook(aside)
    model(torch.ones(2, 4)).sum().backward()
    in_engine(optimizer.step)  # outside of any backward
    assert loops.updates == 0


def test_a_backward_that_fails_leaves_the_next_ones_whole(loops):
    model = network()
    optimizer = sgd(model)
    output = model(torch.ones(2, 4)).sum()
    output.backward()
    with pytest.raises(RuntimeError):
        output.backward()
    step(model, optimizer)
    assert loops.updates == 1


# ------------------------------------------------------------------------ skipped updates


@pytest.fixture
def scaler(loops, monkeypatch) -> Any:
    """A scaler whose hooks are set, with a scale that overflows float32 until it is halved."""
    cls = type("GradScaler", (torch.amp.GradScaler,), {})
    cls.step, cls.scale = torch.amp.GradScaler.step, torch.amp.GradScaler.scale
    hooks.watch_scalers(loops, SimpleNamespace(GradScaler=cls))
    return lambda **how: cls("cpu", **how)


def scaled(model: Any, optimizer: Any, scaler: Any) -> float:
    optimizer.zero_grad()
    loss = 100 * (model(torch.ones(2, 4)) - 1).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return float(loss.item())


def test_a_skipped_update_does_not_shift_the_losses(loops, leg, scaler, watcher):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    made = scaler(init_scale=1e38, backoff_factor=1e-20)
    expected = [scaled(model, optimizer, made) for _ in range(4)]
    assert expected[0] == expected[1] != expected[2]
    assert written(watcher) == pytest.approx(dict(enumerate(expected, 1)))
