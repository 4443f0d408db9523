"""Probes of a model that two ranks train: made in step, and never what could hang them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.script

RANK = """
import datetime, json, sys, time
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from kit.child import FakeProcess, Record
from trainperf.child.torch.built.places import ModelCall, Models
from trainperf.child.job.ranks import FileBoard
from trainperf.child.job.ranks import World
from trainperf.child.timing.device import HostClock
from trainperf.child.timing import probing
from trainperf.child.torch.probes import probes

rank, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
probing.PROBE_S = 0.1
dist.init_process_group(
    "gloo", rank=rank, world_size=2, store=dist.FileStore(folder + "/store", 2),
    timeout=datetime.timedelta(seconds=60),
)

def numbers():
    return [one._get_sequence_number_for_group() for one in dist.distributed_c10d._world.pg_map]

def probed(model, *args, seconds=60.0, board):
    driver = SimpleNamespace(
        kind="iterator",
        loops=SimpleNamespace(
            models=Models(calls={1: ModelCall(model, args, {})}),
            optimizers=[torch.optim.Adam(model.parameters())],
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


PROGRAM = """
def in_step():
    model = DDP(net)
    model(images).sum().backward()
    found = probed(model, images, board="in step")
    for one in model.parameters():
        one.grad = None
    model(images * (rank + 1)).sum().backward()
    return {**found, "grads": [one.grad.double().sum().item() for one in model.parameters()]}

def too_little(_):
    raise probing.NotOffered("too little memory")

def one_cannot():
    pair = probes._pair
    if rank == 1:
        probes._pair = too_little
    try:
        return probed(DDP(net), images, board="one cannot")
    finally:
        probes._pair = pair

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

def one_fails():
    return probed(DDP(Fails()), images, board="one fails")

class Gathers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = net

    def forward(self, x):
        dist.all_reduce(torch.ones(1))
        return self.inner(x)

def gathers():
    return probed(DDP(Gathers()), images, board="gathers")

def synced():
    norm = torch.nn.SyncBatchNorm(4)
    return probed(torch.nn.Sequential(net, norm), images, board="synced")

def no_time():
    return probed(DDP(net), images, seconds=60.0 - 61.0 * rank, board="no time")

for one in (in_step, one_cannot, one_fails, gathers, synced, no_time):
    print(json.dumps([one.__name__, one()]), flush=True)
"""

Said = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """What each of two ranks says of each of the models that they probe."""
    folder = tmp_path_factory.mktemp("ranks")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RANK + PROGRAM, str(rank), str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for rank in range(2)
    ]
    told = [one.communicate(timeout=240)[0] for one in started]
    assert [one.returncode for one in started] == [0, 0]
    return [dict(map(json.loads, one.strip().splitlines())) for one in told]


def test_ranks_make_the_same_probes_exchange_nothing_and_train_on_in_step(said: list[Said]) -> None:
    first, second = (one["in_step"] for one in said)
    assert {"autocast", "channels_last", "double_batch", "fused"} <= set(first["made"])
    assert first["made"].keys() == second["made"].keys()
    assert first["exchanged"] is second["exchanged"] is False
    assert first["grads"] == pytest.approx(second["grads"])  # each is the mean of both


def test_what_one_rank_cannot_do_no_rank_does_and_nobody_waits_for_it(said: list[Said]) -> None:
    first, second = (one["one_cannot"] for one in said)
    assert "autocast" in first["made"]
    assert first["lacks"]["fused"] == "rank 1 cannot: too little memory"
    assert second["lacks"]["fused"] == "too little memory"


def test_a_rank_that_fails_within_a_probe_leaves_it_to_the_other_and_makes_the_next(said):
    first, second = (one["one_fails"] for one in said)
    assert "autocast" in first["made"]
    assert second["lacks"]["autocast"] == "ValueError: no kernel"
    assert {"channels_last", "fused"} <= first["made"].keys() & second["made"].keys()


def test_models_that_exchange_in_their_passes_are_left_alone(said: list[Said]) -> None:
    for one in said:
        assert "exchanges with the other ranks in each pass" in one["gathers"]["lacks"]["autocast"]
        assert "SyncBatchNorm" in one["synced"]["lacks"]["channels_last"]


def test_without_time_on_one_rank_no_probe_is_made(said: list[Said]) -> None:
    for one in said:
        assert one["no_time"]["made"] == {}
        assert set(one["no_time"]["lacks"]) >= {"autocast", "fused"}
