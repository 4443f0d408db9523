"""Loops of several ranks that are not alike, or in which something goes wrong: nothing hangs."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from kit.legs import repeated
from kit.processes import LONG_S, events, observed, script
from trainperf import evidence
from trainperf.evidence.events import NoLoop
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Evidence, Measure, Missing, Recording
from trainperf.trial.ranks import by_rank

pytest.importorskip("torch")

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
TWO = (*TORCHRUN, "--standalone", "--nproc_per_node", "2")

HEAD = """
import os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

def data(count=2000):
    return TensorDataset(torch.randn(count, 32), torch.randn(count, 1))

def net():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

"""
JOINS = """
dist.init_process_group("gloo")
rank = dist.get_rank()
"""

AVERAGED = """
loader = DataLoader(data(), batch_size=16)
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
for epoch in range(100_000):
    for x, y in loader:
        time.sleep(0.02 * rank)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            for one in model.parameters():
                dist.all_reduce(one.data)
"""

FIRST_ONLY = """
if rank == 0:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(100_000):
        for x, y in DataLoader(data(), batch_size=16):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
dist.barrier()
"""


UNALIKE = """
loader = DataLoader(data(), batch_size=16, sampler=DistributedSampler(data()))
checks = DataLoader(data(320), batch_size=16)
model = DDP(net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
for epoch in range(100_000):
    for x, y in loader:
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        step += 1
        if step % 5 == 0 and rank == 0:
            with torch.no_grad():
                for a, b in checks:
                    F.mse_loss(model.module(a), b)
            torch.save(model.state_dict(), "weights.pt")
"""

JOINED = """
from torch.distributed.algorithms.join import Join

loader = DataLoader(data(900 - 300 * rank), batch_size=16)
model = DDP(net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(100_000):
    with Join([model]):
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
"""

SHARDED = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("cpu", (2,))
loader = DataLoader(data(), batch_size=16, sampler=DistributedSampler(data()))
model = net()
for one in (model[0], model[2], model):
    fully_shard(one, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(100_000):
    for x, y in loader:
        time.sleep(0.06 * rank)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        assert torch.isfinite(loss)
"""


PLAIN = """
loader = DataLoader(data(640), batch_size=16, sampler=DistributedSampler(data(640)))
model = DDP(net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
for epoch in range({epochs}):
    for x, y in loader:
        step += 1
        {each}
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
"""


def trains(each: str = "pass", epochs: int = 100_000) -> str:
    """A loop that does something before each step."""
    return PLAIN.format(each=each, epochs=epochs)


def run(
    tmp_path: Path,
    body: str,
    command: tuple[str, ...] = TWO,
    before: str = "",
    **settings: float,
) -> Recording:
    """Observe ranks that do something before they join, and then train."""
    script(tmp_path, HEAD + before + JOINS + body, "train.py")
    env = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    env["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "compiled")
    times = {"measure_s": 1.5, "extra_s": 1.0, **settings}
    return observed((*command, "train.py"), tmp_path, tmp_path / "run", env, **times)


def read(recording: Recording, tmp_path: Path) -> Evidence:
    return evidence.read(recording, inspect_machine(directory=tmp_path))


def blocks(recording: Recording) -> list[list[tuple[str, int]]]:
    """The blocks of each rank, that of rank 0 first."""
    return [
        [(one["p"], one["b"]) for one in recorded if one["e"] == "block"]
        for recorded in by_rank(recording.events).values()
    ]


def test_ranks_that_meet_but_every_ten_steps_agree_on_the_phases(tmp_path):
    recording = run(tmp_path, AVERAGED)
    assert recording.ending is Ending.MEASURED
    assert not [one for one in events(recording, "note") if "rank 0 did not say" in one["text"]]
    first, second = blocks(recording)
    assert first == second
    slow = read(recording, tmp_path).times.real
    assert slow > 0.005  # rank 0 by itself takes much less


def test_a_rank_that_only_waits_is_named_where_something_is_missing(tmp_path):
    recording = run(tmp_path, FIRST_ONLY)
    assert recording.ending is Ending.MEASURED
    found = read(recording, tmp_path)
    assert isinstance(found.times.real_, Measure)
    assert isinstance(found.times.resident_, Missing)
    assert "rank 1 did not answer" in found.times.resident_.reason


@repeated
def test_what_rank_0_does_alone_makes_it_the_one_that_is_waited_for(tmp_path):
    recording = run(tmp_path, UNALIKE)
    assert recording.ending is Ending.MEASURED
    found = read(recording, tmp_path)
    assert found.loop.batch_size == 32
    assert [one.rank for one in found.parallel.stragglers] == [0]


def test_ranks_make_the_probes_of_their_model_in_step(tmp_path):
    recording = run(tmp_path, UNALIKE, extra_s=30.0)
    assert recording.ending is Ending.MEASURED
    first, second = (
        {one["name"]: len(one["base"]) for one in recorded if one["e"] == "probe"}
        for recorded in by_rank(recording.events).values()
    )
    assert {"autocast", "fused", "double_batch"} <= set(first)
    assert first == second
    probes = read(recording, tmp_path).probes
    assert not isinstance(probes["fused"], Missing)


def test_ranks_inside_of_join_are_measured_with_their_exchange(tmp_path):
    recording = run(tmp_path, JOINED)
    assert recording.ending is Ending.MEASURED
    job = read(recording, tmp_path).parallel
    reasons = [one.local.reason for one in job.processes if isinstance(one.local, Missing)]
    assert len(reasons) == 2
    assert all("Join" in one for one in reasons)


def test_of_ranks_that_shard_their_model_the_exchange_is_not_observed(tmp_path):
    recording = run(tmp_path, SHARDED)
    assert recording.ending is Ending.MEASURED
    first, second = blocks(recording)
    assert first == second
    job = read(recording, tmp_path).parallel
    assert job.exchange is not None
    assert job.exchange.method == "fully_shard"
    assert isinstance(job.exchange.seconds_, Missing)
    assert "FSDP" in job.exchange.seconds_.reason
    assert job.exchange.bytes is None
    made = read(recording, tmp_path).probes["autocast"]
    assert isinstance(made, Missing)


# ------------------------------------------------------------------- what goes wrong


def kill_in(folder: Path, rank: int, phase: str) -> None:
    """Kill a rank as soon as it says that it is in a phase."""
    until = time.monotonic() + 2 * LONG_S
    while time.monotonic() < until:
        for path in folder.glob("events-*.jsonl"):
            lines = [json.loads(line) for line in path.read_text().splitlines() if line[-1:] == "}"]
            known = any(one["e"] == "rank" and one["rank"] == rank for one in lines)
            if known and any(one["e"] == "phase" and one["p"] == phase for one in lines):
                os.kill(int(path.stem.partition("-")[2]), signal.SIGKILL)
                return
        time.sleep(0.02)


@pytest.mark.parametrize("phase", ["warmup", "real", "local", "resident", "input", "facts"])
def test_a_rank_that_is_killed_ends_the_run_with_what_was_measured(phase, tmp_path):
    killer = threading.Thread(target=kill_in, args=(tmp_path / "run", 1, phase))
    killer.start()
    began = time.monotonic()
    each = "time.sleep(0.05)" if phase == "warmup" else "time.sleep(0.01)"
    recording = run(tmp_path, trains(each), measure_s=3.0)
    killer.join()
    assert time.monotonic() - began < 2 * LONG_S  # its budget is three minutes
    assert recording.ending in (Ending.FAILED, Ending.SIGNALLED, Ending.MEASURED)
    if phase != "facts":
        assert recording.ending is not Ending.MEASURED
    assert len(by_rank(recording.events)) == 2
    if phase in ("resident", "input", "facts"):
        found = evidence.read(recording, inspect_machine(directory=tmp_path))
        assert isinstance(found.times.real_, Measure)


def test_a_rank_that_never_joins_is_found_out_by_the_watchdog(tmp_path):
    never = "if os.environ['RANK'] == '1': sys.exit(0)\n"
    recording = run(tmp_path, trains(), before=never, stall_s=6.0)
    assert recording.ending is Ending.STALLED
    with pytest.raises(NoLoop):
        evidence.read(recording, inspect_machine(directory=tmp_path))


def test_a_port_in_use_is_told_in_the_words_of_the_launcher(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = (*TORCHRUN, "--nproc_per_node", "2", "--master_port", port)
        recording = run(tmp_path, trains(), command=command)
    assert recording.ending is Ending.FAILED
    assert "in use" in recording.output_tail


def test_a_rank_with_an_error_ends_the_run_and_its_error_is_told(tmp_path):
    recording = run(tmp_path, trains("if rank == 1 and step == 30: raise ValueError('bad record')"))
    assert recording.ending is Ending.FAILED
    errors = [event["text"] for event in events(recording, "error")]
    assert "bad record" in errors


def test_a_job_that_ends_by_itself_ends_on_all_ranks(tmp_path):
    """With nothing to continue: the loop is left after a few steps of its own."""
    recording = run(tmp_path, trains("if step > 12: break", epochs=1))
    assert recording.ending is Ending.FINISHED
    assert recording.exit_status == 0
