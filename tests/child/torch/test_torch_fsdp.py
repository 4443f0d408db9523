"""FSDP's exchange: counted, and left out for a while; on two ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("PyTorch without torch.distributed", allow_module_level=True)

from observing import patient, script  # noqa: E402
from processes import HOOKED_RANK, hooked, process_group  # noqa: E402
from trainperf.child.torch.exchange import fsdp  # noqa: E402
from trainperf.child.torch.exchange.fsdp import GATHER, SCATTER, SUM  # noqa: E402

TESTS = Path(__file__).parents[2]


@pytest.fixture
def loops():
    with process_group(), hooked() as found:
        yield found


@pytest.fixture
def runtime(loops):
    """A module of FSDP, whose calls are watched."""
    fsdp.collectives(loops).watch()
    return sys.modules["torch.distributed.fsdp._runtime_utils"]


SCATTERS = (
    "reduce_scatter_single"
    if hasattr(torch.distributed, "reduce_scatter_single")
    else "reduce_scatter_tensor"
)


def scatter(module: Any, numbers: Any) -> Any:
    """The numbers after a reduce-scatter that the module makes."""
    output = torch.full_like(numbers, 7.0)
    getattr(module.dist, SCATTERS)(output, numbers)
    return output


# ------------------------------------------------------------------------- in one process


def test_nothing_is_hooked_until_a_model_is_sharded(loops):
    assert sys.modules["torch.distributed.fsdp._runtime_utils"].dist is torch.distributed
    assert loops.shards is None
    assert fsdp.counted(loops) is None


def test_only_the_calls_of_fsdp_are_counted(loops, runtime):
    numbers = torch.ones(4)
    for _ in range(3):
        torch.distributed.all_reduce(numbers)
        assert torch.equal(scatter(runtime, numbers), numbers)
        runtime.dist.all_gather([torch.empty(4)], numbers)
        runtime.dist.all_reduce(torch.ones(1))  # a norm
        loops.step_begins(None)
    found = fsdp.counted(loops)
    assert found.of_step(SCATTER) == found.of_step(GATHER) == [16]
    assert found.of_step(SUM) == []
    assert found.whole


def test_the_usual_step_counts_and_not_one_with_an_evaluation(loops, runtime):
    for more in (0, 0, 3, 0):
        scatter(runtime, torch.ones(4))
        for _ in range(more):
            runtime.dist.all_gather([torch.empty(4)], torch.ones(4))
        loops.step_begins(None)
    assert fsdp.counted(loops).of_step(GATHER) == []


def test_while_off_nobody_is_asked_and_the_rest_of_the_module_stays_as_it_is(loops, runtime):
    found = fsdp.collectives(loops)
    numbers, whole = torch.ones(2), torch.full((6,), 7.0)
    found.switch(off=True)
    assert torch.equal(scatter(runtime, numbers), torch.zeros(2))
    assert runtime.dist.all_gather_into_tensor(whole, numbers) is None
    assert torch.equal(whole, torch.ones(6))
    inside = torch.arange(6.0)  # FSDP gathers in place: the rank's part lies in the whole
    runtime.dist.all_gather_into_tensor(inside, inside[2:4])
    assert inside.tolist() == [2, 3, 2, 3, 2, 3]
    runtime.dist.all_reduce(numbers, async_op=True).wait()
    assert torch.equal(numbers, torch.ones(2))
    assert runtime.dist.get_world_size() == 1
    assert runtime.dist.ProcessGroup is torch.distributed.ProcessGroup
    found.switch(off=False)
    assert torch.equal(scatter(runtime, numbers), numbers)


def test_sums_of_norms_are_pytorchs_own_again_afterwards(loops, runtime):
    functional = sys.modules["torch.distributed._functional_collectives"]
    original = functional.all_reduce
    scatter(runtime, torch.ones(2))
    loops.step_begins(None)
    found = fsdp.collectives(loops)
    for _ in range(2):
        found.switch(off=True)
        norm = torch.ones(3)
        assert functional.all_reduce(norm, "sum", torch.distributed.group.WORLD) is norm
    found.switch(off=False)
    assert functional.all_reduce is original


def test_a_call_that_cannot_be_counted_is_made_all_the_same(loops, runtime, monkeypatch):
    failed = []
    monkeypatch.setattr(loops.process, "failed", lambda what, error: failed.append(error))
    with pytest.raises(TypeError):
        runtime.dist.all_reduce()
    assert len(failed) == 1
    assert torch.equal(scatter(runtime, torch.ones(2)), torch.ones(2))


# ------------------------------------------------------------------------------ two ranks

TWO_RANKS = """
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    from processes import driver_of
    from trainperf.child.torch.exchange import all_reduce as torch_all_reduce
    from trainperf.child.torch.exchange import exchange as torch_exchange

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    rank = dist.get_rank()
    torch.manual_seed(0)
    found = {"sums before": sys.modules["torch.distributed._functional_collectives"].all_reduce}

    class World:
        rank, size = dist.get_rank(), dist.get_world_size()
        def meet(self, name, timeout_s):
            dist.barrier()
            return True

    watcher.world = World()
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    if KIND == "fully_shard":
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (2,))
        for one in (net[0], net[2], net):
            fully_shard(one, mesh=mesh)
    else:
        on = dict(device_id=torch.device("cpu"), **SETTINGS)
        net[0] = FullyShardedDataParallel(net[0], **on)
        net = FullyShardedDataParallel(net, **on)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def step():
        loops.step_begins(None)
        loss = net(torch.full((4, 64), 1.0 + rank)).square().mean()
        loss.backward()
        if KIND == "fully_shard":
            norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0).full_tensor()
        else:
            norm = net.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item(), norm.item()

    def whole():
        with torch.no_grad():
            watcher.off = True
            if KIND == "fully_shard":
                values = [one.full_tensor().sum().item() for one in net.parameters()]
            else:
                with FullyShardedDataParallel.summon_full_params(net):
                    values = [one.sum().item() for one in net.parameters()]
            watcher.off = False
        return sum(values)

    found["before"] = [step() for _ in range(4)]
    exchange = loops.exchange
    found["off"] = exchange.off()
    shapes = [tuple(one.shape) for one in net.parameters()]
    if rank == 0:  # alone: it would wait in anything that is still exchanged
        found["alone"] = [step() for _ in range(3)]
    exchange.on()
    dist.barrier()
    if rank == 1:
        exchange.off()
        found["alone"] = [step() for _ in range(3)]
        exchange.on()
    found["shapes"] = shapes == [tuple(one.shape) for one in net.parameters()]
    found["weights"] = whole()
    found["after"] = [step() for _ in range(3)]
    found["weights after"] = whole()
    sums = sys.modules["torch.distributed._functional_collectives"].all_reduce
    found["sums before"] = found["sums before"] is sums

    watcher.off = True
    driver = driver_of(loops)
    for name, extra in torch_all_reduce.extras(driver):
        extra(time.monotonic() + 20)
    found["events"] = [one for one in watcher.record.events if one["e"] not in ("hook", "import")]
    with open(f"{sys.argv[1]}/{rank}.json", "w") as file:
        json.dump(found, file)
    dist.barrier()
    os._exit(0)  # gloo's threads abort some interpreters as they end
"""


def two_ranks(folder: Path, kind: str, settings: str = "{}") -> list[dict[str, Any]]:
    text = (HOOKED_RANK + TWO_RANKS).replace("KIND", repr(kind)).replace("SETTINGS", settings)
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    ran = subprocess.run(
        (*command, str(script(folder, text)), str(folder)),
        env=patient() | {"PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]


@pytest.mark.script
@pytest.mark.long
@pytest.mark.parametrize("kind", ["fully_shard", "FullyShardedDataParallel"])
def test_while_off_a_rank_trains_alone_and_then_all_go_on_together(tmp_path, kind):
    first, second = two_ranks(tmp_path, kind)
    size = (2 * 64 * 64 + 2 * 64) * 4
    for found in (first, second):
        assert found["off"] == ""
        assert [norm for _, norm in found["alone"]] == [0, 0, 0]
        assert found["shapes"]
        assert found["sums before"]
        assert all(norm > 0 for _, norm in found["after"])
        assert found["weights after"] != found["weights"]
        events = {event["e"]: event for event in found["events"]}
        exchange = events["exchange"]
        assert exchange["method"] == kind
        assert exchange["bytes"] == size
        assert sum(exchange["gathers"]) > size
        assert events["all_reduce"]["devices"] == 2
        assert events["all_reduce"]["bytes"] == (size + sum(exchange["gathers"])) // 2
        assert "missing" not in events
    for what in ("weights", "weights after"):
        assert first[what] == second[what]
    norms = [[norm for _, norm in found["after"]] for found in (first, second)]
    assert norms[0] == norms[1]


@pytest.mark.script
@pytest.mark.long
def test_fsdp_that_shards_nothing_sums_its_gradients_as_ddp_does(tmp_path):
    settings = (
        'dict(sharding_strategy=__import__("torch").distributed.fsdp.ShardingStrategy.NO_SHARD)'
    )
    for found in two_ranks(tmp_path, "FullyShardedDataParallel", settings):
        events = {event["e"]: event for event in found["events"]}
        assert found["off"] == ""
        assert len(found["alone"]) == 3
        assert "gathers" not in events["exchange"]
        assert events["exchange"]["bytes"] == (2 * 64 * 64 + 2 * 64) * 4
