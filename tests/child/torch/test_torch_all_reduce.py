"""All-reduces of the gradients' own sizes: what is timed, and two ranks that time them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kit.exchange import HOOKED_RANK, driver_of, hooked, process_group
from kit.processes import patient, script
from trainperf.child.torch.exchange import exchange
from trainperf.child.torch.exchange.exchange import MOST_BYTES

TESTS = Path(__file__).parents[2]


# ------------------------------------------------------------------------ what is timed


def test_of_gigabytes_a_part_is_timed():
    assert exchange.part_of([100, 300]) == ([100, 300], 1.0)
    assert exchange.part_of([10 * MOST_BYTES, 8]) == ([MOST_BYTES], pytest.approx(0.1))


def test_ranks_that_do_not_come_are_not_waited_for_in_a_collective(monkeypatch):
    monkeypatch.setattr(exchange, "sent", lambda loops: (4, [4]))
    waited = []
    with hooked() as loops, process_group():
        driver = driver_of(loops)
        driver.training.world = SimpleNamespace(meet=lambda *words: waited.append(words))
        exchange.all_reduce(driver, driver.clock() + 5)
        (event,) = loops.process.record.of("missing")
    assert "not all ranks came" in event["reason"]
    ((name, timeout_s),) = waited
    assert name == "all_reduce"
    assert 0 < timeout_s <= 5


# ------------------------------------------------------------------------------ two ranks

TWO_RANKS = """
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    from kit.exchange import driver_of
    from trainperf.child.torch.exchange import exchange as torch_exchange

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    found = {}

    def alike(tensor):
        both = [torch.empty_like(tensor) for _ in range(2)]
        watcher.off = True
        dist.all_gather(both, tensor)
        watcher.off = False
        return bool(torch.equal(*both))

    def step(net, weight, optimizer, reduce=lambda: None):
        optimizer.zero_grad()
        net(torch.rand(4, 64)).sum().backward()
        reduce()
        optimizer.step()
        return alike(weight.grad)

    # by hand
    net = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)

    def reduce():
        handles = [dist.all_reduce(one.grad.data, async_op=True) for one in net.parameters()]
        for handle in handles:
            handle.wait()

    class World:
        rank, size = dist.get_rank(), dist.get_world_size()
        def meet(self, name, timeout_s):
            dist.barrier()
            return True

    watcher.world = World()
    found["none yet"] = loops.exchange is None
    found["by hand"] = [step(net, net.weight, optimizer, reduce) for _ in range(2)]
    by_hand = loops.exchange
    found["by hand, off"] = [by_hand.off(), step(net, net.weight, optimizer, reduce)]
    by_hand.on()
    found["by hand, on"] = step(net, net.weight, optimizer, reduce)

    # DDP
    model = nn.Sequential(nn.BatchNorm1d(64), *(nn.Linear(64, 64) for _ in range(4)))
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.03, SETTINGS)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-4)
    weight = model[1].weight
    found["ddp"] = [step(ddp, weight, optimizer) for _ in range(3)]
    exchange = loops.exchange
    found["ddp, off"] = [exchange.off(), *(step(ddp, weight, optimizer) for _ in range(3))]
    found["buffers, off"] = alike(model[0].running_mean)
    exchange.on()
    step(ddp, weight, optimizer)
    found["ddp, on"] = step(ddp, weight, optimizer)

    # the probe
    watcher.off = True
    driver = driver_of(loops)
    for name, extra in torch_exchange.extras(driver):
        extra(time.monotonic() + 20)
    torch_exchange.record(driver)  # as with the other facts
    total = torch.ones(1)
    dist.all_reduce(total)
    found["after"] = total.item()
    found["events"] = [one for one in watcher.record.events if one["e"] not in ("hook", "import")]
    with open(f"{sys.argv[1]}/{rank}.json", "w") as file:
        json.dump(found, file)
    dist.barrier()
    os._exit(0)  # with a DDP left, gloo's threads abort some interpreters as they end
"""


@pytest.mark.script
@pytest.mark.parametrize(
    "settings",
    ["static_graph=True", pytest.param("find_unused_parameters=True", marks=pytest.mark.long)],
)
def test_two_ranks_exchange_nothing_while_off_and_time_their_exchange(tmp_path, settings):
    written = script(tmp_path, (HOOKED_RANK + TWO_RANKS).replace("SETTINGS", settings))
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    ran = subprocess.run(
        (*command, str(written), str(tmp_path)),
        env=patient() | {"PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8"))
        assert found["none yet"]
        assert found["by hand"] == [True, True]
        assert found["by hand, off"] == ["", False]
        assert found["by hand, on"] is True
        assert found["ddp"] == [True, True, True]
        assert found["ddp, off"] == ["", False, False, False]
        assert found["buffers, off"] is False
        assert found["ddp, on"] is True
        assert found["after"] == 2
        check_events({event["e"]: event for event in found["events"]}, settings)


def check_events(events, settings):
    assert events["ddp"]["settings"][settings.split("=")[0]] is True
    assert events["ddp"]["where"]["end_line"]
    sizes = events["exchange"]["buckets"]
    assert events["exchange"]["replicas"] == 2
    assert events["exchange"]["bytes"] == sum(sizes) == (4 * (64 * 64 + 64) + 2 * 64) * 4
    timed = events["all_reduce"]
    assert timed["devices"] == 2
    assert timed["bytes"] == sum(sizes)
    assert timed["seconds"] > 0
    assert "note" not in events
    assert list(events).index("ddp") < list(events).index("all_reduce")
