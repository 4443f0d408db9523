"""The products of a step of real PyTorch, on a CPU, where autocast has bfloat16."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from trainperf.child.torch.step import products as torch_products
from trainperf.child.torch.step.products import Products


class Clock:
    """Each look at it is a second later."""

    now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8, 32))

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return x.float() @ self.weight.t()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(16, 32)
        self.head = Head()

    def forward(self, x):
        return self.head(self.body(x))


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    """Other tests of this process may have compiled."""
    utils = pytest.importorskip("torch._dynamo.utils")
    monkeypatch.setitem(utils.counters, "stats", Counter())


@pytest.fixture
def watched():
    made = []

    def watch(step, part=lambda: "forward"):
        products = Products(part, lambda: None, Clock())
        made.append(products)
        assert products.start()
        step()
        assert products.stop()
        return products

    yield watch
    for one in made:
        one.stop()


def trained(model=None, dtype=torch.bfloat16, batch=4):
    net = model or Net()
    x = torch.ones(batch, 16)

    def step():
        with torch.autocast("cpu", dtype=dtype):
            loss = net(x).sum()
        loss.backward()

    return step


def events(products):
    found = []
    products.record(lambda kind, **fields: found.append((kind, fields)))
    return found


def wide_flops(products):
    return sum(one.flops for one in products.wide.values())


# ---------------------------------------------------------------- what must not change


def test_a_step_gives_the_same_numbers_watched_or_not(watched):
    def gradients(run):
        torch.manual_seed(7)
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Dropout(0.5))
        x = torch.randn(2, 3, 8, 8)

        def step():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = net(x).square().sum()
            loss.backward()

        run(step)
        return [one.grad for one in net.parameters()]

    alone, beside = gradients(lambda step: step()), gradients(watched)
    assert all(torch.equal(one, two) for one, two in zip(alone, beside, strict=True))


def test_what_the_program_raises_comes_through(watched):
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        watched(lambda: torch.ones(2, 3) @ torch.ones(2, 3))


def test_a_compiled_model_is_left_alone(monkeypatch):
    utils = pytest.importorskip("torch._dynamo.utils")
    monkeypatch.setitem(utils.counters, "stats", {"unique_graphs": 1})
    products = Products(lambda: "forward", lambda: None)
    assert not products.start()
    assert products.stop()
    assert events(products) == []


def test_under_a_mode_of_the_programs_it_waits_until_that_is_gone(watched):
    class Own(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    products = Products(lambda: "forward", lambda: None, Clock())
    assert products.start()
    with Own():
        assert not products.stop()
        trained()()
    assert products.stop()
    trained()()
    [(kind, fields)] = events(products)
    assert (kind, fields["what"]) == ("missing", "the products of a step")


# ------------------------------------------------------------------------- what is seen


@pytest.mark.parametrize(
    "work",
    [
        lambda x: torch.nn.Linear(8, 5)(x),
        lambda x: torch.bmm(x.view(3, 4, 8), x.view(3, 8, 4)),
        lambda x: torch.baddbmm(torch.ones(3, 4, 4), x.view(3, 4, 8), x.view(3, 8, 4)),
        lambda x: torch.nn.Conv2d(4, 6, 3, padding=1)(x.view(1, 4, 4, 6)),
        lambda x: torch.nn.Conv1d(8, 6, 3, stride=2)(x.view(1, 8, 12)),
        lambda x: torch.nn.ConvTranspose2d(4, 6, 3, stride=2)(x.view(1, 4, 4, 6)),
    ],
    ids=["linear", "bmm", "baddbmm", "padded", "strided", "transposed"],
)
def test_operations_are_counted_as_pytorch_counts_them(watched, work):
    def step():
        x = torch.ones(96, requires_grad=True)
        work(x.view(12, 8)).sum().backward()

    with FlopCounterMode(display=False) as counter:
        step()
    assert wide_flops(watched(step)) == pytest.approx(counter.get_total_flops())


def test_an_attention_is_two_products_forward_and_five_back(watched):
    x = torch.ones(1, 2, 6, 8, requires_grad=True)
    attend = torch.nn.functional.scaled_dot_product_attention
    products = watched(lambda: attend(x, x, x).sum().backward())
    assert wide_flops(products) == (2 + 5) * 2 * (2 * 6 * 6 * 8)


def test_a_fault_of_ours_is_a_reason_and_the_step_goes_on(watched, monkeypatch):
    monkeypatch.setattr(Products, "_count", lambda *_: 1 / 0)
    products = watched(trained())
    [(kind, fields)] = events(products)
    assert kind == "missing"
    assert "ZeroDivisionError" in fields["reason"]


def test_a_loss_over_many_logits_is_seen_and_a_small_one_is_not(watched, monkeypatch):
    def classified(logits):
        def step():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
            loss.backward()

        return step

    logits = torch.ones(8, 64, dtype=torch.bfloat16, requires_grad=True)
    assert watched(classified(logits)).losses == {}
    monkeypatch.setattr(torch_products, "LARGE", 8 * 64)
    losses = watched(classified(logits)).losses
    assert sum(one.calls for one in losses.values()) == 3  # cast, softmax, its backward
    assert {one.flops / one.calls for one in losses.values()} == {8 * 64}
    assert {place.f_code.co_name for place, _, _ in losses} == {"step"}
