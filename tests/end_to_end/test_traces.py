"""`--trace` on real scripts: the file, its tracks and marks, and that the loop ends there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from end_to_end.test_torch_loops import ENV as TORCH_ENV
from end_to_end.test_torch_loops import LOOPS as TORCH_LOOPS
from observing import drop_inductor_cache, events, observed, python, script
from traced_files import check_nested, tracks_of
from trainperf.model import Ending, Recording, TraceFile
from trainperf.trace.write import write

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

LOOPS = Path(__file__).parent / "loops"
STEPS = 5


def run(file: Path, tmp_path: Path, env: dict[str, str] = TORCH_ENV) -> tuple[Recording, TraceFile]:
    limits = {"trace": True, "measure_s": 3.0, "extra_s": 0.5}
    recording = observed(python(str(file)), file.parent, tmp_path / "run", env, **limits)
    drop_inductor_cache()
    return recording, write(recording, tmp_path / "t.json")


def written(tmp_path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    return found


def check(recording: Recording, trace: TraceFile, tmp_path: Path) -> dict[str, list[Any]]:
    """Checks that hold of every trace; its slices by track."""
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert (trace.steps, trace.reason, trace.notes) == (STEPS, "", ())
    found = written(tmp_path)
    check_nested(found)
    by_track = tracks_of(found)
    own = [one for one in by_track["traced steps"] if one["name"].startswith("step ")]
    [traced] = events(recording, "traced_steps")
    marks = [
        one
        for one in found
        if one["ph"] == "X" and one["name"].startswith(traced["mark"]) and one not in own
    ]
    assert len(own) == len(marks) == STEPS
    for one, other in zip(own, marks, strict=True):
        assert other["ts"] < one["ts"] + one["dur"], "marks are those of the same steps"
        assert one["ts"] < other["ts"] + other["dur"]
    last = [one["name"] for one in by_track["phases of the diagnosis"]]
    assert last[-1] in ("trace", "between epochs")
    assert "real" in last
    assert [one for one in found if one["ph"] == "C"]
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert not [name for name in left if name.startswith(("trace", "profile"))]
    return by_track


SLOW = """
import time
import torch
from torch.utils.data import DataLoader
from common import Points, loss_function, network

class Slow(Points):
    def __getitem__(self, index):
        time.sleep(0.0005)
        return super().__getitem__(index)

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(200):
    for x, y in DataLoader(Slow(), batch_size=16):
        optimizer.zero_grad()
        loss_function(model(x), y).backward()
        optimizer.step()
"""


def test_a_loop_over_a_loader(tmp_path):
    pytest.importorskip("torch")
    recording, trace = run(script(tmp_path, SLOW), tmp_path)
    by_track = check(recording, trace, tmp_path)
    assert [one for one in by_track["traced steps"] if one["name"] == "waiting for data"]
    names = {one["name"] for one in written(tmp_path)}
    assert "aten::addmm" in names
    assert "trainperf: a traced pass" in names
    assert len(events(recording, "torch_trace")) == 1
    lines = next(track for track in by_track if track.startswith("your lines, main thread"))
    assert any("Slow.__getitem__" in one["name"] for one in by_track[lines])


def test_a_loop_of_which_only_the_updates_are_seen_is_not_traced_and_says_why(tmp_path):
    pytest.importorskip("torch")
    recording, trace = run(TORCH_LOOPS / "get_batch.py", tmp_path)
    assert recording.ending is Ending.MEASURED
    assert trace.steps == 0
    assert "Optimizer.step" in trace.reason


def test_fit_and_its_profile(tmp_path):
    pytest.importorskip("tensorflow")
    recording, trace = run(LOOPS / "numpy_fit.py", tmp_path, {"TF_CPP_MIN_LOG_LEVEL": "3"})
    check(recording, trace, tmp_path)
    assert trace.profile == str(tmp_path / "t-tensorboard")
    assert list(Path(trace.profile).glob("plugins/profile/*/*.xplane.pb"))


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


def test_a_script_with_a_profiler_of_its_own_is_diagnosed_all_the_same(tmp_path):
    pytest.importorskip("torch")
    recording, trace = run(script(tmp_path, OWN_PROFILER), tmp_path)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert trace.reason == "the script's own profiler is on"
    assert not (tmp_path / "t.json").exists()


SHORT = """
import torch
from common import Points, loss_function, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(12):
    x, y = torch.rand(16, 16), torch.rand(16, 1)
    loss_function(model(x), y).backward()
    optimizer.step()
"""


def test_a_script_that_ends_before_is_told_from_one_that_cannot_be_traced(tmp_path):
    pytest.importorskip("torch")
    recording, trace = run(script(tmp_path, SHORT), tmp_path)
    assert recording.ending is Ending.FINISHED
    assert trace.reason == "the script was over before its steps were measured"
