"""The same script on fewer devices: which runs are made, and what is said of the others."""

import sys
import time
from dataclasses import replace

import pytest

from fixes.case_text import evidence_of
from kit.processes import script
from recordings import recording
from trainperf.diagnose import fewer_devices
from trainperf.evidence import read
from trainperf.evidence.events import NoLoop
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Missing, Run
from trainperf.run.launch import launch

TORCHRUN = Run(("torchrun", "--nproc_per_node", "4", "train.py"), "/p", "train.py")


def job(replicas, expected=None, **fields):
    expected = replicas if expected is None else expected
    recorded = evidence_of("ddp_compute_bound").parallel
    return replace(recorded, expected=expected, replicas=replicas, **fields)


def seen(parallel, real_s=0.1, batch=None):
    """A run of a recorded script as a job, or on one device where that is None."""
    replicas = parallel.replicas if parallel is not None else 1
    real, batch = real_s or Missing("no step"), batch or 32 * replicas
    laid = {"times.real": real, "loop.batch_size": batch, "parallel": parallel}
    return evidence_of("ddp_compute_bound", laid)


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Measure with runs that are written down: `given` is what each run leaves behind."""

    def make(run, whole, given, left=1000.0, interrupted=lambda: False):
        runs, told, left_over = [], [], list(given)

        def launched(run, folder, interrupted):
            folder.mkdir()
            runs.append(run)
            first = left_over[0]
            ending = left_over.pop(0) if isinstance(first, Ending) else Ending.MEASURED
            return recording(ending=ending)

        def read(recording, machine):
            found = left_over.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(fewer_devices, "launch", launched)
        monkeypatch.setattr(fewer_devices, "read", read)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        deadline = time.monotonic() + left
        points, reason = fewer_devices.measure(
            replace(recording(), run=run), whole, tmp_path, deadline, interrupted, told.append
        )
        assert list(tmp_path.iterdir()) == []
        return points, reason, runs, told

    return make


def figures(points):
    return [(point.devices, point.real_s, point.samples_per_s) for point in points]


@pytest.mark.parametrize(
    ("parallel", "command", "reason"),
    [
        (None, "python train.py", "one process trains on one device"),
        (job(4, hosts=2), "torchrun --nproc_per_node 2 train.py", "several hosts"),
        (job(4, absent=(3,)), "torchrun --nproc_per_node 4 train.py", "not all ranks"),
        (job(2), "python train.py", "how many processes it starts is not said"),
        (job(2), "torchrun train.py", "does not say --nproc-per-node"),
        (job(2, 1), "python train.py", "the script itself says which devices"),
    ],
)
def test_what_cannot_be_run_on_fewer_devices_is_not_run(measured, parallel, command, reason):
    run = replace(TORCHRUN, command=tuple(command.split()))
    points, why, runs, _ = measured(run, seen(parallel), [])
    assert (points, runs) == ((), [])
    assert reason in why


def test_ranks_are_halved_and_the_whole_job_is_the_last_point(measured):
    given = [seen(None, 0.08), seen(job(2), 0.09)]
    points, why, runs, told = measured(TORCHRUN, seen(job(4), 0.1), given)
    assert why == ""
    assert figures(points) == [
        (1, 0.08, pytest.approx(400)),
        (2, 0.09, pytest.approx(64 / 0.09)),
        (4, 0.1, pytest.approx(1280)),
    ]
    assert [run.command[2] for run in runs] == ["1", "2"]
    assert {run.env["OMP_NUM_THREADS"] for run in runs} == {"1"}
    assert {(run.extra_s, run.measure_s) for run in runs} == {(0.0, fewer_devices.MEASURE_S)}
    assert [event["text"] for event in told] == [
        "the script on 1 device",
        "the script on 2 devices",
    ]


def test_a_mirrored_strategy_is_shown_fewer_devices(measured):
    points, _, runs, _ = measured(TORCHRUN, evidence_of("mirrored_cpus"), [seen(None)])
    assert [point.devices for point in points] == [1, 2]
    assert [run.devices for run in runs] == [1]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([seen(None, batch=64)], "on 1 device: each device gets 64 samples a step, not 32"),
        ([seen(job(2))], "on 1 device: it still ran on 2"),
        ([seen(None, real_s=None)], "on 1 device: the real step was not measured"),
        ([NoLoop("no", "", ())], "on 1 device: no training loop was seen"),
        ([Ending.FAILED], "on 1 device: the run ended early: failed"),
    ],
)
def test_a_run_that_cannot_be_compared_is_left_out_with_its_reason(measured, given, reason):
    run = replace(TORCHRUN, command=("torchrun", "--nproc_per_node", "2", "train.py"))
    points, why, *_ = measured(run, seen(job(2)), given)
    assert points == ()
    assert why.startswith(reason)


def test_where_the_time_does_not_allow_it_nothing_is_started(measured):
    points, why, runs, _ = measured(TORCHRUN, seen(job(4)), [], left=10.0)
    assert (points, runs) == ((), [])
    assert "on 1 device: not run: it needs" in why


DDP = """
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
data = TensorDataset(torch.randn(4000, 16), torch.randn(4000, 1))
loader = DataLoader(data, 8, sampler=DistributedSampler(data), drop_last=True)
model = DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for epoch in range(1000):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        time.sleep(0.01 * dist.get_world_size())
        optimizer.step()
"""


@pytest.mark.alone
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("nothing_left")
def test_two_ranks_of_torchrun_are_measured_as_one(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = script(tmp_path, DDP, "train.py")
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    run = Run(
        (*command, "--nproc-per-node=2", str(path)), str(tmp_path), "train.py",
        measure_s=3.0, extra_s=0.0,
    )  # fmt: skip
    whole = launch(run, tmp_path / "whole")
    found = read(whole, inspect_machine())
    deadline = time.monotonic() + 120
    points, why = fewer_devices.measure(
        whole, found, tmp_path, deadline, lambda: False, lambda event: None
    )
    assert why == ""
    assert [point.devices for point in points] == [1, 2]
    assert points[1].real_s > points[0].real_s  # it sleeps twice as long
    rates = [point.samples_per_s * point.real_s for point in points]
    assert rates == [pytest.approx(8), pytest.approx(16)]
