"""The products of a step of real PyTorch, on a CPU, where autocast has bfloat16."""

from __future__ import annotations

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from trainperf.child.torch.step import products as torch_products  # noqa: E402
from trainperf.child.torch.step.products import Products  # noqa: E402


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


def test_within_a_mode_of_the_programs_nothing_is_watched():
    products = Products(lambda: "forward", lambda: None, Clock())
    with FlopCounterMode(display=False) as counter:
        assert not products.start()
        torch.ones(2, 3) @ torch.ones(3, 2)
    assert products.stop()
    assert counter.get_total_flops() == 2 * 2 * 3 * 2
    assert events(products) == []


def test_operators_of_higher_order_are_let_through(watched):
    if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        pytest.skip("this PyTorch runs none of them under a mode")
    x = torch.ones(3, 3)
    made = []
    branches = (lambda a: (a @ a,)), (lambda a: (a,))
    watched(lambda: made.extend(torch.ops.higher_order.cond(torch.tensor(True), *branches, (x,))))
    assert torch.equal(made[0], x @ x)


def test_an_operator_that_only_shares_its_name_is_no_product(watched):
    @torch.library.custom_op("trainperf_tests::mm", mutates_args=())
    def mm(numbers: list[int]) -> torch.Tensor:
        return torch.tensor(numbers)

    products = watched(lambda: mm([1, 2]))
    assert (products.fault, products.wide) == ("", {})


def test_a_fault_of_ours_is_a_reason_and_the_step_goes_on(watched, monkeypatch):
    monkeypatch.setattr(Products, "_count", lambda *_: 1 / 0)
    products = watched(trained())
    [(kind, fields)] = events(products)
    assert kind == "missing"
    assert "ZeroDivisionError" in fields["reason"]


# ------------------------------------------------------------------------- what is seen


def test_a_model_under_autocast_has_no_product_in_float32(watched):
    products = watched(trained(torch.nn.Linear(16, 8)))
    assert products.wide == {}
    assert products.narrow.flops == 2 * 4 * 16 * 8 * 2  # forward, gradient of the weight


def test_a_region_without_autocast_is_found_with_its_line_and_module(watched):
    products = watched(trained())
    found = {
        (place.f_code.co_name, module): one for (place, module, _), one in products.wide.items()
    }
    assert found["forward", "head"].flops == 2 * 4 * 32 * 8
    assert wide_flops(products) == 3 * 2 * 4 * 32 * 8  # its backward has two more
    assert products.narrow.flops == 2 * 2 * 4 * 16 * 32
    assert all(one.seconds == one.calls for one in found.values())  # by this clock


def test_an_autograd_function_without_custom_bwd_is_found_in_backward(watched):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        def backward(ctx, grad):
            x, _ = ctx.saved_tensors
            return None, x.float().t() @ grad.float()

    weight = torch.ones(16, 8, requires_grad=True)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = Own.apply(torch.ones(4, 16), weight).sum()
        loss.backward()

    products = watched(step)
    [(place, module, _)] = products.wide
    assert (place.f_code.co_name, module) == ("backward", "")
    assert products.narrow.calls == 1


def test_what_the_optimizer_multiplies_is_none_of_the_models(watched):
    products = watched(trained(), part=lambda: "optimizer")
    assert events(products) == []


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


def test_a_weight_of_a_group_is_applied_to_its_group_only(watched):
    convolution = torch.nn.Conv2d(4, 6, 3, padding=1, groups=2)
    x = torch.ones(1, 4, 4, 6, requires_grad=True)
    products = watched(lambda: convolution(x).sum().backward())
    assert wide_flops(products) == 3 * 2 * convolution.weight.numel() * 4 * 6


def test_an_attention_is_two_products_forward_and_five_back(watched):
    x = torch.ones(1, 2, 6, 8, requires_grad=True)
    attend = torch.nn.functional.scaled_dot_product_attention
    products = watched(lambda: attend(x, x, x).sum().backward())
    assert wide_flops(products) == (2 + 5) * 2 * (2 * 6 * 6 * 8)


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


def test_the_events_hold_sums_and_the_dearest_places(watched):
    found = events(watched(trained()))
    [totals] = [fields for kind, fields in found if kind == "torch_products"]
    places = [fields for kind, fields in found if kind == "torch_wide_product"]
    assert totals["wide_s"] == sum(one["seconds"] for one in places)
    assert totals["wide_flops"] == sum(one["flops"] for one in places)
    assert [one["seconds"] for one in places] == sorted(
        (one["seconds"] for one in places), reverse=True
    )
    assert places[-1]["where"]["function"] in ("forward", "step")
