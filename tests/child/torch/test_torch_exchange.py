"""The exchange of gradients: whether there is one, switched off and on, and what is recorded."""

from __future__ import annotations

import gc
import io
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from kit.exchange import driver_of, hooked, process_group, train
from trainperf.child.torch.built.places import ModelCall
from trainperf.child.torch.exchange import ddp as torch_ddp
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


# `DistributedDataParallel` as it is seen in a process group of one process.


class Branches(nn.Module):
    """Of two layers only the first is used."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(3, 3)
        self.spare = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.used(x)


def built(model: Any = None, **settings: Any) -> tuple[Any, Any]:
    ddp = DistributedDataParallel(model or nn.Linear(3, 3), **settings)
    return ddp, torch.optim.SGD(ddp.parameters(), lr=1e-3)


def facts(loops: Any) -> dict[str, Any]:
    ((ddp, one),) = loops.ddps.alive
    return torch_ddp.facts(ddp, one)


def test_a_setting_of_the_users_own_hand_counts_as_no_sync(loops):
    ddp, optimizer = built()
    for synced in (False, True):
        ddp.require_backward_grad_sync = synced
        loss = ddp(X).sum()
        loops.backward_begins(loss)
        loss.backward()
        loops.backward_ended()
    optimizer.step()
    loops.stepped(optimizer)
    found = facts(loops)
    assert (found["micro_steps"], found["synced"]) == (2, 1)


def test_parameters_without_a_gradient_are_counted(loops):
    ddp, optimizer = built(Branches(), find_unused_parameters=True)
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    found = facts(loops)
    assert found["unused"] == 2
    assert found["graph_is_static"] is True


# Models spread over devices by other means than DDP, and who writes checkpoints.


@pytest.fixture
def placed():
    gc.collect()  # models of other tests are not what is placed here
    with hooked() as found:
        yield found


def recorded(loops):
    driver = driver_of(loops)
    torch_exchange._placed(driver)
    return driver.facts


def test_a_data_parallel_model_says_where_it_was_built(placed):
    kept = nn.DataParallel(nn.Linear(2, 2))
    found = recorded(placed)["data_parallel"]
    assert found["model"] == "Linear"
    assert found["where"]["file"] == __file__
    assert "end_col" in found["where"]
    assert found["device_ids"] == list(range(torch.cuda.device_count()))
    del kept


def test_a_model_on_two_devices_was_placed_by_hand(placed):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    placed.models.calls[id(net)] = ModelCall(net, (), {})
    assert recorded(placed)["model_devices"] == {
        "model": "Sequential",
        "devices": {"cpu": 2, "meta": 2},
    }


def test_checkpoints_are_counted_once_a_loop_runs(placed, tmp_path):
    placed.training.driver = None
    torch.serialization.save({}, tmp_path / "before.pt")
    placed.training.driver = SimpleNamespace()
    torch.serialization.save({}, io.BytesIO())
    torch.serialization.save({}, tmp_path / "one.pt")
    with open(tmp_path / "two.pt", "wb") as file:
        torch.serialization.save({}, file)
    placed.process.off = True
    torch.serialization.save({}, tmp_path / "ours.pt")
    facts = recorded(placed)
    assert facts["checkpoint_writes"] == 2
    assert facts["checkpoint_where"]["function"].startswith("test_checkpoints_are_counted")
    lines = [event["where"]["line"] for event in placed.process.record.of("saving")]
    assert len(set(lines)) == 2
    assert placed.training.driver.evaluated  # such a step is no usual one


def test_a_checkpoint_of_shards_is_one_and_none_that_each_rank_writes(placed, tmp_path):
    def save(state, *, checkpoint_id):
        for name, tensor in state.items():
            torch.serialization.save(tensor, checkpoint_id / name)

    saver = SimpleNamespace(__name__="torch.distributed.checkpoint.state_dict_saver", save=save)
    torch_exchange.watch_saves(placed, saver)
    placed.training.driver = SimpleNamespace()
    saver.save({"a": torch.ones(1), "b": torch.ones(1)}, checkpoint_id=tmp_path)
    assert len(list(placed.process.record.of("saving"))) == 1
    assert recorded(placed)["checkpoint_writes"] == 0
