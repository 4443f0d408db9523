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
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from emulation import fake_cuda  # noqa: E402
from looping import Watcher, watching  # noqa: E402
from trainperf.child.timing.losses import Losses  # noqa: E402
from trainperf.child.torch import hooks  # noqa: E402
from trainperf.child.torch.graphs import capturing  # noqa: E402
from trainperf.child.torch.loops import TorchLoops  # noqa: E402
from trainperf.model import Equivalence  # noqa: E402
from trainperf.trial.parity import Band, judge, read_losses  # noqa: E402


class Gpu:
    """Whether CUDA is in use, and a stream captures."""

    initialized = True
    capturing = False


@pytest.fixture
def gpu(monkeypatch) -> Gpu:
    made = Gpu()
    fake_cuda.install(put=functools.partial(monkeypatch.setattr, raising=False))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: made.initialized)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: made.capturing)
    return made


@pytest.fixture
def graph(gpu) -> Any:
    """A class like `torch.cuda.CUDAGraph`."""

    class CUDAGraph:
        replays = 0

        def capture_begin(self, pool: Any = None) -> None:
            gpu.capturing = True

        def capture_end(self) -> None:
            gpu.capturing = False

        def replay(self) -> None:
            self.replays += 1

    return CUDAGraph


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    yield from watching()


@pytest.fixture
def loops(watcher, monkeypatch) -> Any:
    """Loops whose hooks are set on PyTorch itself, and taken out with the test."""
    made = TorchLoops(watcher)  # type: ignore[arg-type]
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
    hooks._autograd(made, torch)
    hooks.watch_optimizers(made, stand_in)
    yield made
    for handle in handles:
        handle.remove()


def watched(loops: TorchLoops, cls: Any) -> Any:
    hooks.watch_graphs(loops, SimpleNamespace(CUDAGraph=cls))
    return cls()


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


def test_without_cuda_nothing_is_captured():
    assert not capturing()


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


def test_a_batch_that_is_taken_while_a_graph_is_captured_begins_no_step(gpu, loops, watcher):
    taken: list[Any] = []
    gpu.capturing = True
    hook = loops.watching(lambda iterator: taken.append(iterator) or 1)
    for _ in range(4):
        assert hook(iter([])) == 1
        loops.updates += 1
    assert len(taken) == 4
    assert watcher.driver is None


# ------------------------------------------------------------------ whole steps replayed


def test_a_replayed_step_is_an_update_with_the_optimizer_that_was_captured(loops, graph):
    model = network()
    optimizer = sgd(model)
    one = watched(loops, graph)
    one.capture_begin(pool=None)
    step(model, optimizer)
    one.capture_end()
    assert loops.updates == 0
    for _ in range(3):
        one.replay()
    assert one.replays == loops.updates == 3
    assert loops.optimizers == [optimizer]


def test_the_losses_of_replayed_steps_are_those_that_each_replay_wrote(loops, graph, leg, watcher):
    model = network()
    optimizer = sgd(model)
    one = watched(loops, graph)
    one.capture_begin()
    loss = step(model, optimizer)
    one.capture_end()
    for value in (3.0, 2.0, 1.0):
        loss.data.fill_(value)  # what a replay does
        one.replay()
    assert written(watcher) == {1: 3.0, 2: 2.0, 3: 1.0}
    assert list(seen(watcher, "weights")) == [1, 2]


def test_a_loss_that_is_captured_holds_no_graph_of_autograd(loops, graph, leg):
    model = network()
    one = watched(loops, graph)
    one.capture_begin()
    step(model, sgd(model))
    one.capture_end()
    [update] = one._trainperf_captured.updates
    assert update.loss.grad_fn is None


def test_two_optimizers_in_a_graph_are_two_updates_of_its_step(loops, graph):
    judge, maker = network(), network()
    one = watched(loops, graph)
    for_judge, for_maker = sgd(judge), sgd(maker)
    one.capture_begin()
    step(judge, for_judge)
    step(maker, for_maker)
    one.capture_end()
    one.replay()
    assert loops.updates == 2
    assert loops.optimizers == [for_judge, for_maker]


def test_a_graph_without_an_update_leaves_those_in_python_to_count(loops, graph, watcher):
    """`make_graphed_callables` and the graphs of `torch.compile` hold passes alone."""
    model = network()
    optimizer = sgd(model)
    one = watched(loops, graph)
    one.capture_begin()
    torch.autograd.grad(model(torch.ones(2, 4)).sum(), list(model.parameters()))
    one.capture_end()
    for _ in range(3):
        one.replay()
        optimizer.step()
    assert loops.updates == 3
    assert len(watcher.record.of("torch_replay")) == 1


def test_a_graph_that_is_captured_again_has_the_new_updates_only(loops, graph):
    model = network()
    optimizer = sgd(model)
    one = watched(loops, graph)
    for _ in range(2):
        one.capture_begin()
        step(model, optimizer)
        one.capture_end()
    one.replay()
    assert loops.updates == 1


def test_replays_of_trainperf_s_own_and_within_a_capture_count_for_nothing(
    loops, graph, watcher, gpu
):
    model = network()
    one = watched(loops, graph)
    one.capture_begin()
    step(model, sgd(model))
    one.capture_end()
    watcher.off = True
    one.replay()
    watcher.off = False
    gpu.capturing = True
    one.replay()
    assert (one.replays, loops.updates) == (2, 0)


def test_replayed_steps_drive_a_loop(loops, graph, watcher, gpu):
    model = network()
    one = watched(loops, graph)
    one.capture_begin()
    step(model, sgd(model))
    one.capture_end()
    gpu.initialized = False  # there is none to be waited for
    for _ in range(12):
        watcher.clock.tick()
        one.replay()
    assert watcher.driver.kind == "update"
    assert watcher.driver.updates_per_step == 1


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
def test_the_updates_within_a_backward_are_one_update(loops, run):
    model = network()
    optimizers = updates_itself(model, run)
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
    assert loops.updates == 3
    assert {id(one) for one in loops.optimizers} == {id(one) for one in optimizers}


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


@pytest.mark.parametrize("run", [in_this_thread, in_engine])
def test_the_updates_within_a_backward_drive_a_loop(loops, watcher, run):
    model = network()
    kept = updates_itself(model, run)
    for _ in range(12):
        watcher.clock.tick()
        model(torch.ones(2, 4)).sum().backward()
    assert watcher.driver.kind == "update"
    assert watcher.driver.updates_per_step == 1
    assert len(kept) == 4


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


def test_an_update_within_a_backward_that_is_captured_is_made_at_each_replay(loops, graph):
    model = network()
    kept = updates_itself(model, in_engine)
    one = watched(loops, graph)
    one.capture_begin()
    model(torch.ones(2, 4)).sum().backward()
    one.capture_end()
    for _ in range(3):
        one.replay()
    assert loops.updates == 3
    assert len(loops.optimizers) == len(kept)


# ------------------------------------------------------------- backward within a backward


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_activations_ask_for_one_backward(loops, reentrant):
    """Reentrant checkpointing calls `torch.autograd.backward` within the loop's own."""
    model = network()
    loops.optimizers_built = 0
    counted = []
    loops.weights_updated = lambda key: counted.append(key)
    for _ in range(5):
        x = torch.ones(2, 4, requires_grad=True)
        for part in model:
            x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=reentrant)
        x.sum().backward()
    assert counted == [("backward", 0)] * 2  # the first three are waited for


def test_a_loss_of_several_numbers_is_not_taken_for_what_a_checkpoint_derives(loops, leg, watcher):
    model = network()
    optimizer = sgd(model)
    x = torch.ones(2, 4, requires_grad=True)
    for part in model:
        x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=True)
    expected = x.mean().item()
    x.backward(torch.ones_like(x))
    optimizer.step()
    assert written(watcher) == {1: pytest.approx(expected)}


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


def test_an_update_that_a_scaler_skips_is_a_step_all_the_same(loops, scaler):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    made = scaler(init_scale=1e38, backoff_factor=1e-20)
    before = [one.clone() for one in model.parameters()]
    scaled(model, optimizer, made)
    assert all(map(torch.equal, before, model.parameters()))  # it was skipped
    assert loops.updates == 1
    scaled(model, optimizer, made)
    assert not all(map(torch.equal, before, model.parameters()))
    assert loops.updates == 2


@pytest.mark.parametrize("enabled", [True, False])
def test_an_update_that_is_made_counts_once(loops, scaler, enabled):
    model = network()
    optimizer = sgd(model)
    made = scaler(init_scale=2.0, enabled=enabled)
    for _ in range(3):
        scaled(model, optimizer, made)
    assert loops.updates == 3


def test_a_skipped_update_does_not_shift_the_losses(loops, leg, scaler, watcher):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    made = scaler(init_scale=1e38, backoff_factor=1e-20)
    expected = [scaled(model, optimizer, made) for _ in range(4)]
    assert expected[0] == expected[1] != expected[2]
    assert written(watcher) == pytest.approx(dict(enumerate(expected, 1)))


def test_a_leg_that_skips_its_first_updates_trains_as_one_that_does_not(
    loops, leg, scaler, watcher
):
    """Batches differ by far more than two updates change: shifted by these, losses part."""
    kept: list[Any] = []
    for init_scale in (1.0, 1e38):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        made = scaler(init_scale=init_scale, backoff_factor=1e-15)
        for batch in range(12):
            optimizer.zero_grad()
            loss = 100 * (model(torch.full((2, 4), batch % 5 + 1.0)) - 1).square().mean()
            made.scale(loss).backward()
            made.step(optimizer)
            made.update()
        loops.losses.flush()
        kept.append(read_losses(watcher.record.of("losses")))
        watcher.record.events.clear()
        loops.losses = Losses(watcher)  # type: ignore[arg-type]
    without, skipping = kept
    shifted = replace(without, values={n + 2: value for n, value in without.values.items()})
    how = Equivalence.NUMERICS, without
    assert judge(*how, skipping, Band(True, 0.0)).text.startswith("losses within")
    assert judge(*how, shifted, Band(True, 0.0)).text.startswith("mean losses")


def test_what_a_scaler_skips_while_trainperf_uses_it_counts_for_nothing(loops, scaler, watcher):
    model = network()
    made = scaler(init_scale=1e38)
    watcher.off = True
    scaled(model, sgd(model), made)
    assert loops.updates == 0
