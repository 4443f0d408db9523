"""The exchange of gradients: whether there is one, switched off and on, and what is recorded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from kit.exchange import driver_of, hooked, process_group, train
from trainperf.child.torch.exchange import exchange as torch_exchange
from trainperf.child.torch.exchange.exchange import Exchange

X = torch.ones(2, 3)


@pytest.fixture
def loops():
    with process_group(), hooked() as found:
        yield found


def trained(loops: Any, model: Any = None, **settings: Any) -> tuple[Any, Any]:
    ddp = DistributedDataParallel(model or nn.Linear(3, 3), **settings)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    return ddp, optimizer


# ---------------------------------------------------------------- off and on


@pytest.mark.parametrize("settings", [{"static_graph": True}, {"find_unused_parameters": True}, {}])
def test_with_every_setting_gradients_come_as_without_it(loops, settings):
    ddp, optimizer = trained(loops, **settings)
    exchange = Exchange(loops)
    assert exchange.off() == ""
    ddp(X).sum().backward()
    expected = torch.full((3, 3), 2.0)
    assert torch.equal(ddp.module.weight.grad, expected)
    optimizer.zero_grad()
    exchange.on()
    ddp(X).sum().backward()
    assert torch.equal(ddp.module.weight.grad, expected)


def test_what_the_user_set_stays_set(loops):
    ddp, optimizer = trained(loops)
    exchange = Exchange(loops)
    exchange.off()
    for kept in (False, True):
        ddp.require_backward_grad_sync = kept
        train(loops, ddp, optimizer, [X], [True])
        assert ddp.require_backward_grad_sync is kept
    exchange.on()
    assert ddp.require_backward_grad_sync is ddp.require_forward_param_sync is True


def test_while_off_a_forward_that_fails_leaves_all_as_it_was(loops):
    ddp, _ = trained(loops)
    Exchange(loops).off()
    with pytest.raises(RuntimeError):
        ddp(torch.ones(2, 7))
    assert ddp.require_backward_grad_sync is True


# ---------------------------------------------------------------- where it cannot be


@pytest.mark.parametrize("own", [False, True])
def test_it_is_not_switched_before_a_forward_and_an_update_of_it_were_seen(loops, own):
    class Own(DistributedDataParallel):
        def forward(self, *args: Any) -> Any:
            return self.module(*args)

    kept = (Own if own else DistributedDataParallel)(nn.Linear(3, 3), static_graph=not own)
    assert Exchange(loops).off() == torch_exchange.UNSEEN
    assert not loops.ddps.off
    del kept


# ---------------------------------------------------------------- what is recorded


def test_gradients_reduced_by_hand_are_recorded(loops):
    net = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(X).sum().backward()
    for one in net.parameters():
        torch.distributed.distributed_c10d.all_reduce(one.grad)
    optimizer.step()
    loops.stepped(optimizer)
    torch_exchange.record(driver_of(loops))
    (exchange,) = loops.process.record.of("exchange")
    assert exchange["method"] == torch_exchange.BY_HAND
    assert exchange["backend"] == "gloo"
    assert sorted(exchange["buckets"]) == [12, 36]


def test_while_off_a_handle_that_is_asked_for_is_done(loops):
    net = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(X).sum().backward()
    loops.stepped(optimizer)
    loops.sums.off = True
    grad = net.weight.grad
    for args, kwargs in (((grad,), {"async_op": True}), ((grad, None, None, True), {})):
        handle = loops.sums.reduce(pytest.fail, *args, **kwargs)
        assert handle.wait() is True
        assert handle.is_completed()
        (result,) = handle.get_future().wait()
        assert result.data_ptr() == grad.data_ptr()
