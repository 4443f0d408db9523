"""PyTorch scripts that fail, fork, hang, or build their loaders in uncommon ways."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kit.processes import events, gone, native, observed, python, script
from trainperf import evidence
from trainperf.errors import NotMeasured
from trainperf.evidence.events import NoLoop
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Evidence, Measure, Recording

pytest.importorskip("torch")

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

ENV = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""Where PyTorch makes a folder, observed or not; in the temporary one unless it is told."""
OURS = re.compile(r"_trainperf_child|trainperf/child")

HEAD = """
import os, random, sys, time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

class Points(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        {item}
        return torch.full((16,), index / 640), torch.ones(1)

def training(loader, epochs=1000):
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        train(model, optimizer, loader)
    return model

def train(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""


def run(tmp_path: Path, source: str, item: str = "pass", **settings: Any) -> Recording:
    """Observe a script that begins with `HEAD`; `item` is a statement of `__getitem__`."""
    script(tmp_path, HEAD.replace("{item}", item) + source, "train.py")
    times = {"measure_s": 1.0, "extra_s": 1.0} | settings
    env = {**ENV, CACHE: str(tmp_path / "compiled")}
    recording = observed(python("train.py"), tmp_path, tmp_path / "run", env, **times)
    assert [event["text"] for event in events(recording, "note")] == []
    assert not OURS.search(recording.output_tail)
    return recording


def measured(tmp_path: Path, source: str, item: str = "pass", **settings: Any) -> Evidence:
    """The evidence of a script that is measured to the end."""
    recording = run(tmp_path, source, item, **settings)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    found = read(recording, tmp_path)
    assert isinstance(found.times.real_, Measure)
    return found


def read(recording: Recording, folder: Path) -> Evidence:
    return evidence.read(recording, inspect_machine(directory=folder))


def line(folder: Path, number: int) -> str:
    return (folder / "train.py").read_text().splitlines()[number - 1].strip()


# -------------------------------------------------------------------- workers that fail

WITH_WORKER = """
if __name__ == "__main__":
    training(DataLoader(Points(), 16, num_workers=1))
"""


def test_the_error_of_a_worker_is_that_of_the_script(tmp_path):
    recording = run(tmp_path, WITH_WORKER, "if index == 300: raise ValueError('label 300 is NaN')")
    assert recording.ending is Ending.FAILED
    assert recording.exit_status == 1
    assert events(recording, "error")[-1]["type"] == "ValueError"
    assert "label 300 is NaN" in recording.output_tail
    with pytest.raises((NotMeasured, NoLoop)):
        _ = read(recording, tmp_path).times.input


def test_a_worker_that_hangs_is_given_up_and_ended(tmp_path, mark):
    item = "if index == 300: print('deadlock', flush=True); time.sleep(1000)"
    recording = run(tmp_path, WITH_WORKER, item, stall_s=4.0)
    assert recording.ending is Ending.STALLED
    assert "deadlock" in recording.output_tail
    assert read(recording, tmp_path).loop.kind == "iterator"
    assert gone(mark)


def test_a_dataset_that_cannot_be_pickled_fails_as_it_does_alone(tmp_path):
    source = """
class Locked(Points):
    def __init__(self):
        self.read = lambda index: index

if __name__ == "__main__":
    training(DataLoader(Locked(), 16, num_workers=1, multiprocessing_context="spawn"))
"""
    recording = run(tmp_path, source)
    assert recording.ending is Ending.FAILED
    error = events(recording, "error")[-1]
    assert "pickle" in error["text"]
    assert line(tmp_path, 24) == "for x, y in loader:"
    assert 'train.py", line 24' in recording.output_tail


# ------------------------------------------------------------- loaders of uncommon kinds


def test_a_sampler_that_is_a_generator_is_not_asked_twice(tmp_path):
    source = """
def order():
    while True:
        yield from torch.randperm(640).tolist()

training(DataLoader(Points(), 16, sampler=order()))
"""
    found = measured(tmp_path, source)
    assert found.torch.loader.sampler == "generator"
    assert found.torch.loader.batches is None
    assert "dataset item" in {stage.op for stage in found.stages}


def test_a_sampler_that_runs_out_ends_the_script_as_it_does_alone(tmp_path):
    source = """
training(DataLoader(Points(), 16, sampler=(i % 640 for i in range(320))), epochs=3)
print("over")
"""
    recording = run(tmp_path, source)
    assert recording.ending is Ending.FINISHED
    assert recording.output_tail == "over\n"
    assert read(recording, tmp_path).loop.kind == "iterator"


# --------------------------------------------------------------- scripts with own habits


def test_a_script_that_seeds_everything_sees_its_own_numbers(tmp_path):
    source = """
random.seed(7); np.random.seed(7); torch.manual_seed(7)
torch.use_deterministic_algorithms(True)
loader = DataLoader(Points(), 16, shuffle=True, generator=torch.Generator().manual_seed(7))
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
done = 0
for epoch in range(100):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if done < 4:
            print(loss.item(), random.random(), np.random.rand(), torch.rand(1).item())
        done += 1
"""
    recording = run(tmp_path, source)
    alone = native(python("train.py"), tmp_path, {**ENV, CACHE: str(tmp_path / "compiled")})
    assert alone.returncode == 0, alone.stdout
    assert recording.ending is Ending.MEASURED
    assert recording.output_tail == alone.stdout
    assert alone.stdout.count("\n") == 4


def test_a_child_that_was_forked_after_the_model_was_built_records_no_steps(tmp_path):
    source = """
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Points(), 16)
if os.fork() == 0:
    for x, y in loader:
        nn.functional.mse_loss(model(x), y).backward()
    print("child", model.weight.grad.shape, flush=True)
    os._exit(0)
os.wait()
for epoch in range(1000):
    train(model, optimizer, loader)
"""
    recording = run(tmp_path, source)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert "child torch.Size([1, 16])" in recording.output_tail
    assert isinstance(read(recording, tmp_path).times.real_, Measure)
    (trained,) = [pid for pid, one in recording.events.items() if "step" in kinds(one)]
    (started,) = [pid for pid, one in recording.events.items() if "import" in kinds(one)]
    assert trained == started


def kinds(recorded: Any) -> set[str]:
    return {event["e"] for event in recorded}


def test_a_child_that_is_forked_while_a_model_trains_changes_nothing(tmp_path):
    source = """
class Forking(Points):
    def __getitem__(self, index):
        if index == 320 and os.fork() == 0:
            torch.ones(4, 4) @ torch.ones(4, 4)
            os._exit(0)
        return super().__getitem__(index)

import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
training(DataLoader(Forking(), 16))
"""
    found = measured(tmp_path, source)
    assert {part.name for part in found.torch.split} >= {"forward", "backward", "optimizer"}
