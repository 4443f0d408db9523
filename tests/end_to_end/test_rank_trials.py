"""Legs of jobs of several ranks: real launchers, gloo over loopback, taking turns."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kit.legs import bench, changed, clock, repeated, states, warm_up
from kit.processes import script, soon
from trainperf.model import Leg as LegOf
from trainperf.model import Run
from trainperf.run.stopping import Guard
from trainperf.trial.legs.faults import LegFailed
from trainperf.trial.legs.leg import Leg
from trainperf.trial.queue import Queue
from trainperf.trial.ranks import by_rank, launcher, obstacle, place

pytestmark = [
    pytest.mark.alone,
    pytest.mark.long,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("nothing_left"),
]

DDP = """
import os
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

STEP_S = 0.02

def train():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(192, 16), torch.randn(192, 1))  # 12 steps an epoch
    loader = DataLoader(data, 8, sampler=DistributedSampler(data), drop_last=True)
    model = DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(1000):
        for number, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            time.sleep(STEP_S * (1 + 0.5 * dist.get_rank()))
            optimizer.step()
            SPOT

if __name__ == "__main__":
    train()
"""
SPAWN = (
    DDP.replace('dist.init_process_group("gloo")', "meet(rank)")
    .replace("def train():", "def train(rank):")
    .replace(
        "    train()\n",
        "    import torch.multiprocessing as mp\n    mp.spawn(train, nprocs=2)\n",
    )
    .replace(
        "STEP_S = 0.02",
        "STEP_S = 0.02\n\n"
        "def meet(rank):\n"
        '    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")\n'
        '    port = os.environ.setdefault("MASTER_PORT", "12355")\n'
        '    dist.init_process_group("gloo", rank=rank, world_size=2)',
    )
)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def source(text: str = DDP, spot: str = "pass", step_s: float = 0.02) -> str:
    return text.replace("SPOT", spot).replace("0.02", str(step_s), 1)


@pytest.fixture
def job(tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = script(tmp_path, source(), "train.py")
    yield Run((*TORCHRUN, str(path)), str(tmp_path), "train.py", leg=LegOf(6, ranks=2), seed=1)
    assert states(mark) == []


def ready(leg: Leg, guard: Guard) -> None:
    warm_up([leg], guard)
    assert not leg.failure


@pytest.mark.sentinel
def test_both_ranks_take_the_same_steps_of_each_slice_and_stand_still_between(
    job: Run, tmp_path: Path, mark: str
) -> None:
    leg = Leg("", job, tmp_path / "leg")

    def all_stand() -> bool:
        """A signal takes its time to reach the last thread."""
        ours = {*by_rank(leg.events), *leg._processes.others}
        return ours <= {pid for pid, _ in states(mark)}

    with Guard() as guard:
        try:
            ready(leg, guard)
            assert (launcher(leg.events), obstacle(leg.events, os.uname().nodename)) == (
                "torchrun",
                "",
            )
            for steps in (5, 8, 3):
                assert soon(all_stand)
                piece = leg.run_slice(steps, 2, 60.0, lambda: False)
                assert piece is not None
                assert steps - 1 <= piece.steps <= steps  # an epoch's first is not timed
                # as long as the slower of the ranks needs, which sleeps half as much again
                assert piece.seconds / piece.steps > 0.03
            counts = [
                [event["n"] for event in events if event["e"] == "block"]
                for events in by_rank(leg.events).values()
            ]
            assert counts[0] == counts[1]
            assert len(counts[0]) == 3
            first = place(leg.trained)
            assert first is not None
            assert first["rank"] == 0
            assert any(event["e"] == "losses" for event in leg.trained)
        finally:
            leg.end()


@pytest.mark.timeout(600)
@repeated
def test_a_faster_variant_reads_faster_and_the_script_itself_as_itself(
    job: Run, tmp_path: Path
) -> None:
    path = Path(job.cwd) / "train.py"
    half = changed(job, path, source(step_s=0.008), "half")
    with Queue(bench(job, tmp_path)) as engine:
        (measured,) = engine.compare([half], clock(150.0))
        baseline = engine.baseline()
    assert not measured.failure
    assert measured.ratio is not None
    assert measured.ratio.speedup > 1.2
    assert baseline.control is not None
    assert 0.6 < baseline.control.speedup < 1.6
    assert baseline.losses is not None


def test_a_leg_that_stood_for_long_goes_on(job: Run, tmp_path: Path) -> None:
    """Longer than the rendezvous of torchrun waits for a sign of life: 15 s."""
    leg = Leg("", job, tmp_path / "leg")
    with Guard() as guard:
        try:
            ready(leg, guard)
            assert leg.run_slice(4, 1, 60.0, lambda: False) is not None
            time.sleep(17)
            assert leg.run_slice(150, 1, 60.0, lambda: False) is not None
        finally:
            leg.end()


@pytest.mark.parametrize("what", ["raises", "is killed"])
def test_a_rank_that_dies_is_named(job: Run, tmp_path: Path, what: str) -> None:
    spot, reason = {
        "raises": ("1 / (dist.get_rank() == 0 or number < 20)", "fails on rank 1: ZeroDivision"),
        "is killed": ("(dist.get_rank() and number > 20) and os.kill(os.getpid(), 9)", "rank 1"),
    }[what]
    path = tmp_path / "train.py"
    bad = replace(job, sources={str(path): source(spot=spot).encode()})
    leg = Leg("bad", bad, tmp_path / "leg")
    with Guard() as guard:
        try:
            ready(leg, guard)
            with pytest.raises(LegFailed, match=reason):
                leg.run_slice(40, 1, 60.0, lambda: False)
        finally:
            leg.end()


def test_a_rank_killed_while_it_is_stopped_is_noticed(job: Run, tmp_path: Path) -> None:
    leg = Leg("", job, tmp_path / "leg")
    with Guard() as guard:
        try:
            ready(leg, guard)
            os.kill(list(by_rank(leg.events))[1], signal.SIGKILL)
            with pytest.raises(LegFailed, match=r"lost rank 1, killed by SIGKILL"):
                leg.run_slice(40, 1, 60.0, lambda: False)
        finally:
            leg.end()


def test_ranks_that_multiprocessing_starts_take_turns_at_ports_of_their_own(
    job: Run, tmp_path: Path
) -> None:
    path = script(tmp_path, source(SPAWN), "train.py")
    run = replace(job, command=(sys.executable, str(path)))
    legs = [Leg("", run, tmp_path / "one"), Leg("two", run, tmp_path / "two")]
    with Guard() as guard:
        try:
            warm_up(legs, guard)
            assert not any(leg.failure for leg in legs)
            for leg in (*legs, *legs):
                piece = leg.run_slice(4, 1, 60.0, lambda: False)
                assert piece is not None
                assert piece.steps in (3, 4)
            assert launcher(legs[0].events) == ""
        finally:
            for leg in legs:
                leg.end()


def test_the_time_being_over_ends_a_slice_of_ranks_in_its_middle(job: Run, tmp_path: Path) -> None:
    leg = Leg("", job, tmp_path / "leg")
    over = threading.Event()
    with Guard() as guard:
        try:
            ready(leg, guard)
            threading.Timer(0.5, over.set).start()
            assert leg.run_slice(10_000, 1, 600.0, over.is_set) is None
        finally:
            leg.end()
