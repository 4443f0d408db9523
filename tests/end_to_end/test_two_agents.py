"""Two torchrun agents on this machine, as on two hosts: two records, one report."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.processes import script, strays
from trainperf.model import Ending, known
from trainperf.ranks import records
from trainperf.ranks.merge import merge

pytest.importorskip("torch")

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_of_ours_left")]

TRAIN = """
    import os, sys
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4096, 32), torch.randn(4096, 1))
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
    layers = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    fails = "--fail" in sys.argv and dist.get_rank() == 1
    count = 0
    for epoch in range(10_000):
        for x, y in loader:
            count += 1
            if fails and count == 200:
                sys.exit("out of data")
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
"""
WAIT_S = 150.0
TORCHS_OWN = ("torchelastic_", "torchinductor_")
"""Folders that torchrun and torch leave in the temporary folder, observed or not."""


@pytest.fixture
def nothing_of_ours_left(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Fail the test if it leaves a process or a temporary file."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield
    assert strays(mark) == []
    assert [one for one in temporary.iterdir() if not one.name.startswith(TORCHS_OWN)] == []


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


@contextmanager
def agents(folder: Path, *arguments: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Start two agents of one job; what is left of them at the end is killed."""
    script(folder, TRAIN, "train.py")
    command = (
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id", "two"),
        *("--no-python", sys.executable, "-m", "trainperf", "diagnose"),
        *("--run-dir", "records", "train.py", *arguments),
    )
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TRAINPERF_MEASURE": "3s",
        "TRAINPERF_EXTRA": "2s",
    }
    started = [
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        yield started
    finally:
        for agent in started:
            if agent.poll() is None:
                agent.terminate()
        for agent in started:
            agent.communicate(timeout=60)


def ended(started: list[subprocess.Popen[str]]) -> list[str]:
    """The output of the agents, once both have ended."""
    until = time.monotonic() + WAIT_S
    return [agent.communicate(timeout=max(1.0, until - time.monotonic()))[0] for agent in started]


def test_two_agents_make_one_report(tmp_path: Path) -> None:
    with agents(tmp_path) as started:
        said = ended(started)
        assert [agent.returncode for agent in started] == [0, 0], said
    text = "".join(said)
    assert "rank 1 of 2: measured" in text
    assert f"trainperf merge {tmp_path / 'records'}" in text
    found = merge(tmp_path / "records")
    job = found.evidence.parallel_
    assert job is not None
    assert (job.expected, job.absent, job.launcher) == (2, (), "torchrun")
    assert [(one.rank, one.ended) for one in job.processes] == [(0, "measured"), (1, "measured")]
    assert all(known(one.real) and known(one.resident) for one in job.processes)
    assert found.step_s == pytest.approx(job.processes[0].real.seconds)
    assert found.loop is not None
    assert found.loop.where.file == str(tmp_path / "train.py")


def test_a_rank_that_fails_ends_the_job_and_every_rank_leaves_its_record(tmp_path: Path) -> None:
    with agents(tmp_path, "--fail") as started:
        said = ended(started)
        assert all(agent.returncode for agent in started), said
    own = {rank: records.load(path) for rank, path in records.folders(tmp_path / "records")}
    endings = sorted(str(record.ending) for record in own.values())
    assert Ending.FAILED in endings, said
    assert len(own) == 2
    found = merge(tmp_path / "records")
    notes = " ".join(found.notes)
    told = (
        notes
        if found.evidence.parallel_ is None
        else " ".join(one.ended for one in found.evidence.parallel_.processes)
    )
    assert "failed with exit status 1" in told
