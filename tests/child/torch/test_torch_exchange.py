"""The exchange of gradients: whether there is one, switched off and on, and what is recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("PyTorch without torch.distributed", allow_module_level=True)

from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from looping import Watcher  # noqa: E402
from processes import driver_of, hooked, process_group, train  # noqa: E402
from trainperf.child.torch.exchange import exchange as torch_exchange  # noqa: E402
from trainperf.child.torch.exchange.exchange import Exchange  # noqa: E402

X = torch.ones(2, 3)


@pytest.fixture
def loops():
    with process_group(), hooked() as found:
        yield found


def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it look as if another process were in the job."""
    place = {"rank": 0, "world_size": 2, "backend": "gloo"}
    monkeypatch.setattr(torch_exchange, "world", lambda: place)
    monkeypatch.setattr(Watcher, "world", object())


def trained(loops: Any, model: Any = None, **settings: Any) -> tuple[Any, Any]:
    ddp = DistributedDataParallel(model or nn.Linear(3, 3), **settings)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    return ddp, optimizer


def exchanges(ddp: Any) -> int:
    """How often so far its reducer made ready for an exchange."""
    before: int = ddp.prepared
    return before


def counted(ddp: Any) -> Any:
    """The same, whose reducer counts the exchanges it is made ready for."""
    reducer = ddp.reducer
    ddp.prepared = 0

    class Reducer:
        def __getattr__(self, name: str) -> Any:
            return getattr(reducer, name)

        def prepare_for_backward(self, tensors: Any) -> None:
            ddp.prepared += 1
            reducer.prepare_for_backward(tensors)

    ddp.reducer = Reducer()
    return ddp


# ---------------------------------------------------------------- where there is none


def test_without_a_process_group_there_is_no_world():
    assert torch_exchange.world() is None
    with hooked() as loops:
        assert loops.exchange is None


def test_a_job_of_one_process_exchanges_nothing(loops):
    kept = trained(loops)
    assert torch_exchange.world() == {"rank": 0, "world_size": 1, "backend": "gloo"}
    assert loops.exchange is None
    del kept


def test_ranks_that_train_apart_exchange_nothing(loops, monkeypatch):
    several(monkeypatch)
    assert loops.exchange is None


# ---------------------------------------------------------------- off and on


def test_while_off_no_backward_exchanges(loops, monkeypatch):
    several(monkeypatch)
    ddp, optimizer = trained(loops)
    counted(ddp)
    exchange = loops.exchange
    assert exchange.off() == ""
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    assert exchanges(ddp) == 0
    exchange.on()
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    assert exchanges(ddp) == 3


def test_it_is_the_same_object_each_time(loops, monkeypatch):
    several(monkeypatch)
    kept = trained(loops)
    assert loops.exchange is loops.exchange
    del kept


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
    ddp.require_backward_grad_sync = False
    train(loops, ddp, optimizer, [X], [True])
    assert ddp.require_backward_grad_sync is False
    ddp.require_backward_grad_sync = True
    train(loops, ddp, optimizer, [X], [True])
    assert ddp.require_backward_grad_sync is True
    exchange.on()
    assert ddp.require_backward_grad_sync is True
    assert ddp.require_forward_param_sync is True


def test_a_loop_that_leaves_no_sync_by_itself_stays_off(loops):
    ddp, optimizer = trained(loops)
    counted(ddp)
    exchange = Exchange(loops)
    with ddp.no_sync():
        exchange.off()
        ddp(X).sum().backward()
    train(loops, ddp, optimizer, [X, X], [False, True])
    assert exchanges(ddp) == 0
    exchange.on()
    train(loops, ddp, optimizer, [X, X], [False, True])
    assert exchanges(ddp) == 1


def test_while_off_a_forward_that_fails_leaves_all_as_it_was(loops):
    ddp, _ = trained(loops)
    Exchange(loops).off()
    with pytest.raises(RuntimeError):
        ddp(torch.ones(2, 7))
    assert ddp.require_backward_grad_sync is True


def test_micro_steps_are_counted_while_off_as_the_loop_means_them(loops):
    ddp, optimizer = trained(loops)
    Exchange(loops).off()
    ((_, one),) = loops.ddps.alive
    before = one.synced
    train(loops, ddp, optimizer, [X, X], [False, True])
    assert one.synced - before == 1


def test_statistics_of_batches_are_still_exchanged_and_that_is_said(loops):
    kept = trained(loops, nn.Sequential(nn.Linear(3, 3)))
    kept[0].module.append(nn.SyncBatchNorm(3))
    assert Exchange(loops).off() == ""
    (note,) = loops.process.record.of("note")
    assert "SyncBatchNorm" in note["text"]


# ---------------------------------------------------------------- where it cannot be


def test_a_static_graph_before_its_first_step_cannot_be_without(loops):
    ddp = DistributedDataParallel(nn.Linear(3, 3), static_graph=True)
    assert Exchange(loops).off() == torch_exchange.STATIC
    assert not loops.ddps.off
    del ddp


def test_fsdp_whose_exchange_is_not_observed_cannot_be_without(loops, monkeypatch):
    several(monkeypatch)
    net = nn.Linear(3, 3)
    net.__class__ = type("FSDPLinear", (type("FSDPModule", (), {}), nn.Linear), {})
    loops.model_calls[id(net)] = (net, (), {})
    assert torch_exchange.method(loops) == "fully_shard"
    assert torch_exchange.sent(loops) == (None, [])
    assert loops.exchange.off() == torch_exchange.FSDP


def test_what_dynamo_traces_is_left_alone(loops):
    kept = trained(loops)
    loops.ddps.unhook()
    assert Exchange(loops).off() == torch_exchange.COMPILED
    del kept


def test_inside_of_join_ranks_ask_each_other(loops):
    ddp, _ = trained(loops)
    ddp._join_config = SimpleNamespace(enable=True)
    assert Exchange(loops).off() == torch_exchange.JOINED


def test_a_forward_of_its_own_cannot_be_switched(loops):
    class Own(DistributedDataParallel):
        def forward(self, *args: Any) -> Any:
            return self.module(*args)

    kept = Own(nn.Linear(3, 3))
    assert Exchange(loops).off() == torch_exchange.OWN_FORWARD
    del kept


# ---------------------------------------------------------------- what is recorded


def test_nothing_is_recorded_where_nothing_is_exchanged(loops):
    driver = driver_of(loops)
    torch_exchange.record(driver)
    assert loops.process.record.events == []


def test_a_ddp_its_exchange_and_its_times_are_recorded(loops):
    ddp, optimizer = trained(loops)
    loops.detail = object()
    for _ in range(4):
        train(loops, ddp, optimizer, [X], [True])
    loops.detail = None
    driver = driver_of(loops)
    torch_exchange.record(driver)
    (one,) = loops.process.record.of("ddp")
    assert (one["model"], one["micro_steps"], one["synced"]) == ("Linear", 1, 1)
    (exchange,) = loops.process.record.of("exchange")
    assert exchange == {
        "e": "exchange",
        "method": "DistributedDataParallel",
        "backend": "gloo",
        "replicas": 1,
        "bytes": 48,
        "buckets": [48],
    }
    (overlap,) = loops.process.record.of("overlap")
    assert overlap["steps"] >= 2


def test_a_loop_is_recorded_once_and_the_next_one_again(loops):
    kept = trained(loops)
    driver = driver_of(loops)
    for one in (driver, driver, driver_of(loops)):
        torch_exchange.record(one)
    assert len(loops.process.record.of("exchange")) == 2
    del kept


def test_an_update_with_two_exchanges_sends_twice_as_much(loops):
    ddp = DistributedDataParallel(nn.Linear(3, 3))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    for _ in range(3):
        train(loops, ddp, optimizer, [X, X], [True, True])
    assert torch_exchange.sent(loops) == (96, [48, 48])


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


def test_data_parallel_exchanges_within_the_process(loops):
    kept = nn.DataParallel(nn.Linear(3, 3))
    torch_exchange.record(driver_of(loops))
    (exchange,) = loops.process.record.of("exchange")
    assert exchange["method"] == "DataParallel"
    assert exchange["bytes"] == 48
    del kept


def test_a_group_with_a_backend_for_each_device_names_the_one_in_use(monkeypatch):
    dist = SimpleNamespace(
        get_backend_config=lambda group: "cpu:gloo,cuda:nccl",
        get_backend=lambda group: "undefined",
    )
    monkeypatch.setattr(torch_exchange, "distributed", lambda: dist)
    assert torch_exchange.backend(None, "cuda") == "nccl"
    assert torch_exchange.backend(None, "cpu") == "gloo"
    assert torch_exchange.backend(None, "xpu") == "undefined"
