"""Losses of a leg: references during a step, numbers at a pause."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from kit.child import FakeProcess
from kit.processes import soon
from trainperf.child.timing.losses import MOST, Losses, loss_in


def a_leg(warm_up_steps: int = 0) -> FakeProcess:
    """The process of a leg."""
    return FakeProcess({"leg": {"warm_up_steps": warm_up_steps}}, lenient=True)


class Tensor:
    """A scalar on a device; to look at it is to wait for it."""

    shape: tuple[int, ...] = ()

    class dtype:  # noqa: N801
        is_floating = True

    def __init__(self, value: float) -> None:
        self._value = value
        self.copies = 0

    def numpy(self) -> float:
        self.copies += 1
        return self._value


def written(losses: Losses, process: FakeProcess) -> dict[int, Any]:
    before = len(process.record.events)
    losses.flush()
    assert process.failures == []
    new = process.record.events[before:]
    return {u: v for event in new for u, v in zip(event["u"], event["v"], strict=True)}


@pytest.fixture
def process() -> FakeProcess:
    return a_leg()


@pytest.fixture
def losses(process: FakeProcess) -> Losses:
    return Losses(process)


STEP = ("function", 1)


def test_nothing_is_copied_before_the_pause(losses: Losses, process: FakeProcess) -> None:
    tensor = Tensor(0.5)
    losses.returned(STEP, tensor)
    assert tensor.copies == 0
    assert written(losses, process) == {1: 0.5}
    assert tensor.copies == 1
    assert written(losses, process) == {}


def test_the_first_losses_after_a_pause_are_kept(losses, process):
    for update in range(1, 5001):
        losses.returned(STEP, float(update))
    kept = written(losses, process)
    assert kept == {update: float(update) for update in range(1, MOST + 1)}
    losses.returned(STEP, 1.0)
    assert written(losses, process) == {5001: 1.0}


def test_a_loss_that_cannot_be_read_ends_nothing(losses: Losses, process: FakeProcess) -> None:
    class Gone(Tensor):
        def numpy(self) -> float:
            raise RuntimeError("the buffer is gone")

    losses.returned(STEP, Gone(0.0))
    losses.flush()
    assert process.failures == ["losses: RuntimeError('the buffer is gone')"]
    losses.returned(STEP, 0.5)
    process.failures.clear()
    assert written(losses, process) == {2: 0.5}


# ------------------------------------------------------------------- losses of PyTorch

OPTIMIZER = ("optimizer", 1)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_a_loss_of_pytorch_is_kept_without_its_graph(losses, process, torch):
    class Held:
        """An object that a graph keeps until it is derived or dropped."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: Any) -> Any:
            context.held = Held()
            held.append(weakref.ref(context.held))
            return value.sum() * 2

    held: list[Any] = []
    loss = Doubled.apply(torch.ones(1000, requires_grad=True))
    losses.derived(loss)
    losses.applied(OPTIMIZER)
    assert held[0]() is not None
    del loss
    assert soon(lambda: held[0]() is None)
    assert written(losses, process) == {1: 2000.0}


def test_a_loss_that_the_script_writes_over_is_kept_as_it_was(losses, process, torch):
    loss = torch.tensor(0.5)
    losses.derived(loss)
    loss.mul_(100)
    losses.applied(OPTIMIZER)
    loss.mul_(100)
    assert written(losses, process) == {1: 0.5}


def test_weights_are_held_by_no_one_but_their_model(torch: Any) -> None:
    process = a_leg(8)
    losses = Losses(process)
    weights = [torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2)]
    losses.weights(weights)
    losses.applied(OPTIMIZER)
    gone = weakref.ref(weights[0])
    weights.clear()
    assert soon(lambda: gone() is None)
    losses.applied(OPTIMIZER)
    losses.flush()
    sums = [event for event in process.record.events if event["kind"] == "weights"]
    assert [(event["u"], event["v"]) for event in sums] == [([1], [6.0])]


def test_a_loss_for_each_element_is_told_by_its_mean(losses, process, torch):
    losses.derived(torch.tensor([1.0, 2.0, 6.0], dtype=torch.bfloat16))
    losses.applied(OPTIMIZER)
    losses.derived(torch.tensor(0.25))
    losses.applied(OPTIMIZER)
    assert written(losses, process) == {1: 3.0, 2: 0.25}


@pytest.mark.parametrize("value", [None, 3, "text", {}, [], {"accuracy": 1}, [[], {"loss": "0.5"}]])
def test_what_has_no_float_scalar_has_no_loss(value: Any) -> None:
    assert loss_in(value) is None


def test_the_loss_is_found_by_its_name_before_others_that_come_first() -> None:
    assert loss_in({"accuracy": 0.9, "g_loss": 0.5}) == 0.5
    assert loss_in({"a_loss": 0.9, "loss": 0.5}) == 0.5
    assert loss_in((1, [{"mae": 0.5}])) == 0.5
