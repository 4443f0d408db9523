"""Jobs of several ranks in which something goes wrong: nothing hangs, nothing is left."""

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

from kit.processes import LONG_S, events, observed, script
from trainperf import evidence
from trainperf.evidence.events import NoLoop
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Measure, Recording

pytest.importorskip("torch")

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
TWO = (*TORCHRUN, "--standalone", "--nproc_per_node", "2")

TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

{first}
dist.init_process_group("gloo")
rank = dist.get_rank()
data = TensorDataset(torch.randn(640, 32), torch.randn(640, 1))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
for epoch in range({epochs}):
    for x, y in loader:
        step += 1
        {each}
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""


def run(
    tmp_path: Path,
    command: tuple[str, ...] = TWO,
    first: str = "",
    each: str = "pass",
    epochs: int = 100_000,
    **settings: float,
) -> Recording:
    script(tmp_path, TRAIN.format(first=first, each=each, epochs=epochs), "train.py")
    env = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    env["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "compiled")
    times = {"measure_s": 1.5, "extra_s": 1.0, **settings}
    return observed((*command, "train.py"), tmp_path, tmp_path / "run", env, **times)


def ranks(recording: Recording) -> dict[int, list[dict[str, object]]]:
    found = {}
    for recorded in recording.events.values():
        for event in recorded:
            if event["e"] == "rank":
                found[event["rank"]] = list(recorded)
    return found


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
    recording = run(tmp_path, each=each, measure_s=3.0)
    killer.join()
    assert time.monotonic() - began < 2 * LONG_S  # its budget is three minutes
    assert recording.ending in (Ending.FAILED, Ending.SIGNALLED, Ending.MEASURED)
    if phase != "facts":
        assert recording.ending is not Ending.MEASURED
    assert set(ranks(recording)) == {0, 1}
    if phase in ("resident", "input", "facts"):
        found = evidence.read(recording, inspect_machine(directory=tmp_path))
        assert isinstance(found.times.real_, Measure)


def test_a_rank_that_never_joins_is_found_out_by_the_watchdog(tmp_path):
    first = "if os.environ['RANK'] == '1': sys.exit(0)"
    recording = run(tmp_path, first=first, stall_s=6.0)
    assert recording.ending is Ending.STALLED
    with pytest.raises(NoLoop):
        evidence.read(recording, inspect_machine(directory=tmp_path))


def test_a_port_in_use_is_told_in_the_words_of_the_launcher(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = (*TORCHRUN, "--nproc_per_node", "2", "--master_port", port)
        recording = run(tmp_path, command=command)
    assert recording.ending is Ending.FAILED
    assert "in use" in recording.output_tail


def test_a_rank_with_an_error_ends_the_run_and_its_error_is_told(tmp_path):
    recording = run(tmp_path, each="if rank == 1 and step == 30: raise ValueError('bad record')")
    assert recording.ending is Ending.FAILED
    errors = [event["text"] for event in events(recording, "error")]
    assert "bad record" in errors


def test_a_job_that_ends_by_itself_ends_on_all_ranks(tmp_path):
    """With nothing to continue: the loop is left after a few steps of its own."""
    recording = run(tmp_path, each="if step > 12: break", epochs=1)
    assert recording.ending is Ending.FINISHED
    assert recording.exit_status == 0


def test_all_ranks_take_the_same_steps_in_the_same_phases(tmp_path):
    recording = run(tmp_path)
    assert recording.ending is Ending.MEASURED
    taken = [
        [(one["p"], one["b"], one["n"]) for one in recorded if one["e"] == "block"]
        for recorded in ranks(recording).values()
    ]
    assert len(taken) == 2
    assert [(p, b) for p, b, _ in taken[0]] == [(p, b) for p, b, _ in taken[1]]
    assert {p for p, _, _ in taken[0]} >= {"real", "resident", "profile"}
    for kind in ("note", "error"):
        assert events(recording, kind) == []
