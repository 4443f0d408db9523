"""All-reduces of gradients in the user's own loop: which they are, and how they are left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed import distributed_c10d as c10d

from kit.exchange import hooked, process_group


class Counting:
    """Stands for `all_reduce`; doubles what it is given and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, tensor: Any, *args: Any, **kwargs: Any) -> str:
        self.calls += 1
        return "handle"


@pytest.fixture
def loops():
    with process_group(), hooked() as found:
        yield found


def model() -> tuple[Any, Any]:
    net = nn.Linear(3, 2)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


def backward(net: Any) -> None:
    net(torch.ones(1, 3)).sum().backward()


def one_update(loops: Any, net: Any, optimizer: Any, reduce: Any) -> None:
    backward(net)
    for parameter in net.parameters():
        reduce(parameter.grad)
    optimizer.step()
    loops.stepped(optimizer)
    optimizer.zero_grad()


def test_a_handle_that_is_asked_for_is_done(loops):
    net, optimizer = model()
    one_update(loops, net, optimizer, c10d.all_reduce)
    backward(net)
    loops.sums.off = True
    grad = net.weight.grad
    for args, kwargs in (((grad,), {"async_op": True}), ((grad, None, None, True), {})):
        handle = loops.sums.reduce(Counting(), args, kwargs)
        assert handle.wait() is True
        assert handle.is_completed()
        (result,) = handle.get_future().wait()
        assert result.data_ptr() == grad.data_ptr()
