"""Observing a PyTorch script changes nothing of the user's and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_safety import old, snapshot

from kit.processes import LONG_S, events, gone, native, observed, python, script
from trainperf.model import Ending, Recording
from trainperf.run import guarding

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

QUIET = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
BRIEF = {"measure_s": 0.5, "extra_s": 0.5}

TRAIN = """
import glob, os, sys
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
to = sys.argv[1]
path = lambda *names: os.path.join(to, *names)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(64, 4), torch.rand(64, 1)), batch_size=8)

def state():
    return {name: value.clone() for name, value in model.state_dict().items()}

def same(one, other):
    return sorted(one) == sorted(other) and all(torch.equal(one[name], other[name]) for name in one)

def print(*words, print=print):
    print("seen", *words)
"""

LOOP = """
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    torch.save(state(), path("best.pt"))
"""

WRITERS = (
    TRAIN
    + """
from importlib.util import find_spec
import torch.distributed.checkpoint as dcp
torch.save(state(), path("best.pt"))
print("over another", same(torch.load(path("best.pt")), state()))
torch.save({"model": state(), "epoch": 3}, Path(to) / "new.pt")
print("by a Path", torch.load(Path(to) / "new.pt")["epoch"], torch.load(f=path("new.pt"))["epoch"])
print("earlier", torch.load(path("earlier.pt")))
shards = {name: torch.zeros_like(value) for name, value in state().items()}
dcp.save(state(), checkpoint_id=path("shards"))
dcp.load(shards, checkpoint_id=path("shards"))
print("shards", same(shards, state()))
if find_spec("safetensors"):
    from safetensors.torch import load_file, load_model, save_file, save_model
    save_file(state(), path("model.safetensors"))
    print("safetensors", same(load_file(path("model.safetensors")), state()))
    save_model(model, path("model.safetensors"))
    print("a model", load_model(model, path("model.safetensors")))
if find_spec("tensorboard"):
    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter(path("logs"))
    writer.add_scalar("loss", 1.0, 1)
    writer.close()
"""
)

ATOMIC = """
def atomic(value, name):
    torch.save(value, path(name + ".tmp"))
    os.replace(path(name + ".tmp"), path(name))

atomic({"epoch": 1}, "best.pt")
print("replaced", torch.load(path("best.pt")))
"""

KEEPING = """
for number in range(5):
    torch.save(state(), path(f"kept-{number}.pt"))
    if number >= 3:
        os.remove(path(f"kept-{number - 3}.pt"))
for number in range(5):
    try:
        print("kept", number, same(torch.load(path(f"kept-{number}.pt")), state()))
    except FileNotFoundError:
        print("gone", number)
for attempt in range(2):  # what an earlier run left is removed for this run alone
    try:
        os.remove(path("earlier.pt"))
        print("removed")
    except FileNotFoundError:
        print("removed already")
"""

GLOBBING = """
for number in range(5):
    torch.save(state(), path(f"step-{number}.pt"))
    for name in sorted(glob.glob(path("step-*.pt")))[:-3]:
        os.remove(name)
print("kept", sorted(map(os.path.basename, glob.glob(path("step-*.pt")))))
"""

OPEN = """
with open(path("open.pt"), "wb") as file:
    torch.save(state(), file)
with open(path("open.pt"), "rb") as file:
    print("an open file", same(torch.load(file), state()))
"""


@pytest.fixture(autouse=True)
def caches_of_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch makes a folder for compiled kernels in the temporary folder, and leaves it."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "kernels"))


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """The files of an earlier run of a script."""
    folder = tmp_path / "project/outputs"
    for name in ("best.pt", "model.safetensors", "step-0.pt", "logs/events.old", "open.pt"):
        script(folder, "as it was", name)
    torch.save([1, 2], folder / "earlier.pt")
    return folder


def seen(output: str) -> list[str]:
    """The script's own output, without what libraries log."""
    return [line for line in output.splitlines() if line.startswith("seen")]


def compared(source: str, outputs: Path, tmp_path: Path, covered: bool) -> Recording:
    """Run a script alone, put back what it wrote over, run it observed: it saw the same."""
    project = outputs.parent
    script(project, source, "train.py")
    old(project)
    kept = tmp_path / "kept"
    shutil.copytree(outputs, kept, symlinks=True)
    command = python("train.py", str(outputs))
    alone = native(command, project, QUIET)
    assert alone.returncode == 0, alone.stdout
    shutil.rmtree(outputs)
    shutil.copytree(kept, outputs, symlinks=True)
    old(project)
    before = snapshot(project)
    run = tmp_path / "run"
    run.mkdir()
    guarded: tuple[str, ...] = ()
    if covered:
        found = guarding.probe([str(project)], run, [run])
        if not found.folders:
            pytest.skip(found.unguarded[0])
        guarded = found.folders
    recording = observed(command, project, run, QUIET, guarded=guarded, **BRIEF)
    assert snapshot(project) == before
    assert seen(recording.output_tail) == seen(alone.stdout)
    assert recording.ending in (Ending.MEASURED, Ending.FINISHED)
    return recording


def test_a_covered_tree_is_byte_identical_and_the_script_sees_what_it_wrote(outputs, tmp_path):
    source = WRITERS + OPEN + ATOMIC + KEEPING + GLOBBING + LOOP
    compared(source, outputs, tmp_path, covered=True)


def test_without_a_view_the_writers_of_pytorch_touch_nothing(outputs, tmp_path, monkeypatch):
    monkeypatch.setattr("trainperf.run.launch.clear", lambda folder: None)  # it is looked into
    recording = compared(WRITERS + ATOMIC + KEEPING + LOOP, outputs, tmp_path, covered=False)
    scratch = Path(f"{tmp_path}/run/scratch/local{outputs}")
    assert (scratch / "best.pt").is_file()
    assert (scratch / "new.pt").is_file()
    assert (scratch / "shards/.metadata").is_file()
    assert not [note for note in events(recording, "note") if "redirected" in note["text"]]


# ------------------------------------------------------------------- what workers leave

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
