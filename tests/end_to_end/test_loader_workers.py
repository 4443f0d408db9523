"""The workers of a PyTorch loader, started and killed in each way, leave nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.processes import LONG_S, events, gone, observed, python, script
from trainperf.model import Ending

pytest.importorskip("torch")

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

QUIET = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
BRIEF = {"measure_s": 0.5, "extra_s": 0.5}


@pytest.fixture(autouse=True)
def caches_of_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch makes a folder for compiled kernels in the temporary folder, and leaves it."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "kernels"))


WORKERS = """
import os, signal, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Points(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        if index == int(os.environ.get("CRASH_AT", -1)):
            os._exit(3)
        return torch.full((4096,), index / 640), torch.ones(1)

def main(method="fork", *options):
    if "file_system" in options:
        torch.multiprocessing.set_sharing_strategy("file_system")
    model = nn.Linear(4096, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Points(), 16, num_workers=2, multiprocessing_context=method,
        persistent_workers="persistent" in options,
    )
    done = 0
    for epoch in range(1000):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            done += 1
            if done == int(os.environ.get("KILLED_AT", -1)):
                os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def used_shm() -> str:
    """The files of `/dev/shm` that some process has open or mapped, as one text."""
    seen = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            seen.append((process / "maps").read_text(errors="replace"))
            seen += [os.readlink(fd) for fd in (process / "fd").iterdir()]
        except OSError:
            continue
    return "\n".join(seen)


def shm() -> set[str]:
    return set(os.listdir("/dev/shm"))


@pytest.fixture
def no_shm_left() -> Iterator[None]:
    """Fail the test if a file stays in `/dev/shm` that no process uses any more."""
    before = shm()
    yield
    until = time.monotonic() + LONG_S
    left = shm() - before
    while left and time.monotonic() < until:  # other programs make and remove theirs
        time.sleep(0.2)
        used = used_shm()
        left = {name for name in shm() - before if f"/dev/shm/{name}" not in used}
    assert left == set()


FORK, SPAWN, FILES = ("fork",), ("spawn", "persistent"), ("fork", "file_system")


def long(*options: str) -> Any:
    """Start and share in these ways too, where there is time: each is among the others."""
    return pytest.param(options, marks=pytest.mark.long)


WAYS = [
    long(*FORK),
    ("fork", "persistent"),
    SPAWN,
    long("forkserver"),
    FILES,
    long("spawn", "persistent", "file_system"),
]


@pytest.mark.usefixtures("no_shm_left")
@pytest.mark.parametrize("options", WAYS, ids="-".join)
def test_workers_leave_nothing_when_all_is_measured(tmp_path, options):
    script(tmp_path, WORKERS, "train.py")
    command = python("train.py", *options)
    recording = observed(command, tmp_path, tmp_path / "run", QUIET, **BRIEF)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert {event["p"] for event in events(recording, "block")} >= {"real", "resident"}
    assert events(recording, "input")
    trained = [found for found in recording.events.values() if any(e["e"] == "loop" for e in found)]
    assert len(trained) == 1
    others = {e["e"] for found in recording.events.values() if found not in trained for e in found}
    assert others <= {"at", "hello", "import", "exit"}


@pytest.mark.usefixtures("no_shm_left")
@pytest.mark.parametrize("options", [FORK, SPAWN, long(*FILES)], ids="-".join)
def test_workers_leave_nothing_when_the_script_is_killed(tmp_path, mark, options):
    script(tmp_path, WORKERS, "train.py")
    command = python("train.py", *options)
    env = {**QUIET, "KILLED_AT": "30"}
    recording = observed(command, tmp_path, tmp_path / "run", env, measure_s=5.0)
    assert recording.ending is Ending.SIGNALLED, recording.output_tail
    assert recording.exit_status == -9
    assert gone(mark, 3.0)  # PyTorch's workers look for their parent every 5 s


@pytest.mark.usefixtures("no_shm_left")
@pytest.mark.parametrize("options", [FORK, long(*SPAWN), long(*FILES)], ids="-".join)
def test_a_worker_that_crashes_is_named_by_the_error_of_the_script(tmp_path, mark, options):
    script(tmp_path, WORKERS, "train.py")
    command = python("train.py", *options)
    env = {**QUIET, "CRASH_AT": "200"}
    recording = observed(command, tmp_path, tmp_path / "run", env, measure_s=5.0)
    assert recording.ending is Ending.FAILED, recording.output_tail
    errors = events(recording, "error")
    assert errors, recording.output_tail
    # PyTorch says so, unless it was just taking a tensor from the worker.
    assert errors[-1]["type"] in ("RuntimeError", "ConnectionResetError", "EOFError")
    assert errors[-1]["type"] in recording.output_tail
    # Its handler of SIGCHLD raises as well: Python may be printing the first error just then.
    cut_off = "lost sys.stderr" in recording.output_tail
    assert cut_off or errors[-1]["text"].splitlines()[0] in recording.output_tail
    assert "_trainperf_child" not in recording.output_tail
    assert gone(mark, 3.0)  # PyTorch's workers look for their parent every 5 s
    for file in Path(os.environ["TMPDIR"]).glob("tmp*"):
        # It opens some to see whether it can: that error may fall between a file and its removal.
        if file.stat().st_size == 0:
            file.unlink()


NESTED = """
import gc
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __init__(self, collects):
        self.collects = collects
    def __len__(self):
        return 24
    def __getitem__(self, index):
        if self.collects and index == 0:
            gc.collect()
        return torch.rand(4), torch.rand(1)

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Rows(False), batch_size=4, num_workers=1)
evaluated = DataLoader(Rows(True), batch_size=4, num_workers=1)
for epoch in range(1000):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        if step % 6 == 3:
            with torch.no_grad():
                for a, b in evaluated:
                    model(a)
"""


def test_workers_of_an_evaluation_do_not_end_those_of_the_training(tmp_path):
    """Forked while the loop goes through an iterator of ours, they must not finalize theirs."""
    path = script(tmp_path / "u", NESTED)
    recording = observed(python(path.name), path.parent, tmp_path / "run", QUIET, **BRIEF)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert events(recording, "epoch")  # the loop went on in a new one
