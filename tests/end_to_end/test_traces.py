"""`--trace` on real scripts: the file, its marks, and that the loop ends there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from end_to_end.test_torch_loops import ENV as TORCH_ENV
from end_to_end.test_torch_loops import LOOPS as TORCH_LOOPS
from kit.processes import events, observed, python, script
from trainperf.commands.session import write_trace
from trainperf.model import Ending, Recording, TraceFile

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

LOOPS = Path(__file__).parent / "loops"
STEPS = 5


def run(file: Path, tmp_path: Path, env: dict[str, str] = TORCH_ENV) -> tuple[Recording, TraceFile]:
    limits = {"trace": True, "measure_s": 3.0, "extra_s": 0.5}
    recording = observed(python(str(file)), file.parent, tmp_path / "run", env, **limits)
    return recording, write_trace(recording, tmp_path / "t.json")


def check(recording: Recording, trace: TraceFile, tmp_path: Path, mark: str) -> set[str]:
    """What holds of every trace; the names of what is in it."""
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert trace == TraceFile(str(tmp_path / "t.json"), STEPS)
    found = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    marks = sorted(event["name"] for event in found if event["name"].startswith(mark))
    assert marks == [f"{mark}{number}" for number in range(STEPS)]
    assert not list((tmp_path / "run").glob("trace*"))
    return {event["name"] for event in found}


def test_a_loop_over_a_loader(tmp_path):
    pytest.importorskip("torch")
    recording, trace = run(TORCH_LOOPS / "plain.py", tmp_path)
    assert "aten::addmm" in check(recording, trace, tmp_path, "ProfilerStep#")
    assert len(events(recording, "torch_trace")) == 1


@pytest.mark.long
def test_a_loop_of_which_only_the_updates_are_seen(tmp_path):
    pytest.importorskip("torch")
    recording, trace = run(TORCH_LOOPS / "get_batch.py", tmp_path)
    check(recording, trace, tmp_path, "ProfilerStep#")


def test_fit(tmp_path):
    pytest.importorskip("tensorflow")
    recording, trace = run(LOOPS / "numpy_fit.py", tmp_path, {"TF_CPP_MIN_LOG_LEVEL": "3"})
    check(recording, trace, tmp_path, "train ")


OWN_PROFILER = """
import torch
from torch.utils.data import DataLoader
from common import Points, loss_function, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = torch.profiler.schedule(wait=10**6, warmup=1, active=1)
with torch.profiler.profile(schedule=schedule) as profiler:
    for epoch in range(200):
        for x, y in DataLoader(Points(), batch_size=16):
            optimizer.zero_grad()
            loss_function(model(x), y).backward()
            optimizer.step()
            profiler.step()
"""


@pytest.mark.long
def test_a_script_with_a_profiler_of_its_own_is_diagnosed_all_the_same(tmp_path):
    pytest.importorskip("torch")
    recording, trace = run(script(tmp_path, OWN_PROFILER), tmp_path)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert trace.reason == "the script's own profiler is on"
    assert not (tmp_path / "t.json").exists()
