"""Probes of a model that two ranks train: made in step, and never what could hang them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.script

RANK = """
import datetime, json, sys, time
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from fakes import FakeProcess, Record
from trainperf.child.job.boards import FileBoard
from trainperf.child.job.ranks import World
from trainperf.child.timing.device.clock import HostClock
from trainperf.child.timing.probing import alternating
from trainperf.child.torch.probes import probes, updates

rank, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
alternating.PROBE_S = 0.1
dist.init_process_group(
    "gloo", rank=rank, world_size=2, store=dist.FileStore(folder + "/store", 2),
    timeout=datetime.timedelta(seconds=60),
)

def numbers():
    return [one._get_sequence_number_for_group() for one in dist.distributed_c10d._world.pg_map]

def probed(model, *args, seconds=60.0, board="board"):
    driver = SimpleNamespace(
        kind="iterator",
        loops=SimpleNamespace(
            model_calls={1: (model, args, {})},
            optimizers=[torch.optim.Adam(model.parameters())],
            autocast="",
        ),
        dataset=lambda: SimpleNamespace(batch_size=8),
        record=Record(), sync=lambda: None, device=HostClock(time.monotonic),
        clock=time.monotonic, process=FakeProcess({"trials": True}),
        world=World(rank, 2, FileBoard(folder + "/" + board)),
    )
    before = numbers()
    probes.record(driver, time.monotonic() + seconds)
    made = {one["name"]: len(one["base"]) for one in driver.record.of("probe")}
    lacks = {one["what"][6:]: one["reason"] for one in driver.record.of("missing")}
    return {"made": made, "lacks": lacks, "exchanged": numbers() != before}

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(288, 4))
images = torch.randn(8, 3, 8, 8)
"""


def ranks(folder: Path, program: str) -> list[dict[str, Any]]:
    """What the last line of each of two ranks says."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RANK + program, str(rank), str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for rank in range(2)
    ]
    said = [one.communicate(timeout=120)[0] for one in started]
    assert [one.returncode for one in started] == [0, 0]
    return [json.loads(one.strip().splitlines()[-1]) for one in said]


def test_ranks_take_the_same_turns_exchange_nothing_and_train_on_in_step(tmp_path):
    first, second = ranks(
        tmp_path,
        """
model = DDP(net)
model(images).sum().backward()
found = probed(model, images)
for one in model.parameters():
    one.grad = None
model(images * (rank + 1)).sum().backward()
grads = [one.grad.double().sum().item() for one in model.parameters()]
print(json.dumps({**found, "grads": grads}))
""",
    )
    assert {"autocast", "channels_last", "double_batch", "fused"} <= set(first["made"])
    assert first["made"] == second["made"]
    assert first["exchanged"] is second["exchanged"] is False
    assert first["grads"] == pytest.approx(second["grads"])  # each is the mean of both


def test_what_one_rank_cannot_do_no_rank_does_and_nobody_waits_for_it(tmp_path):
    first, second = ranks(
        tmp_path,
        """
if rank == 1:
    updates._check = lambda tensors: (_ for _ in ()).throw(updates.NotOffered("too little memory"))
print(json.dumps(probed(DDP(net), images)))
""",
    )
    assert "autocast" in first["made"]
    assert first["lacks"]["fused"] == "rank 1 cannot: too little memory"
    assert second["lacks"]["fused"] == "too little memory"


def test_a_rank_that_fails_within_a_probe_is_left_and_the_next_probe_is_made(tmp_path):
    first, second = ranks(
        tmp_path,
        """
class Fails(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = net
        self.calls = 0

    def forward(self, x):
        if torch.is_autocast_enabled("cpu"):
            self.calls += 1
            if rank == 1 and self.calls > 3:
                raise ValueError("no kernel")
        return self.inner(x)

print(json.dumps(probed(DDP(Fails()), images)))
""",
    )
    assert first["lacks"]["autocast"] == "RuntimeError: another rank left the probe"
    assert second["lacks"]["autocast"] == "ValueError: no kernel"
    assert "channels_last" in first["made"]
    assert first["made"] == second["made"]


def test_models_that_exchange_in_their_passes_are_left_alone(tmp_path):
    first, second = ranks(
        tmp_path,
        """
class Gathers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = net

    def forward(self, x):
        dist.all_reduce(torch.ones(1))
        return self.inner(x)

gathers = probed(DDP(Gathers()), images, board="one")
try:
    norm = torch.nn.SyncBatchNorm(4)
    synced = probed(torch.nn.Sequential(net, norm), images, board="two")
finally:
    print(json.dumps({"gathers": gathers["lacks"], "synced": synced["lacks"]}))
""",
    )
    for one in (first, second):
        assert "exchanges with the other ranks in each pass" in one["gathers"]["autocast"]
        assert "SyncBatchNorm" in one["synced"]["channels_last"]


def test_without_time_on_one_rank_no_probe_is_made(tmp_path):
    for one in ranks(
        tmp_path, "print(json.dumps(probed(DDP(net), images, seconds=60.0 - 61.0 * rank)))"
    ):
        assert one["made"] == {}
        assert set(one["lacks"]) >= {"autocast", "fused", "compile"}
