"""Nothing the user had is changed by observing their script, whatever it writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit.processes import events, native, observed, old, python, script, snapshot
from trainperf.model import Ending, Recording
from trainperf.run import guarding

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "OMP_NUM_THREADS": "1",
}

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

KERAS = """
import os, shutil, sys
import numpy as np
import tensorflow as tf
import keras
from importlib.util import find_spec

keras.utils.set_random_seed(1)
x, y = np.random.rand(64, 4).astype("float32"), np.random.rand(64, 1).astype("float32")

def board(*args, **kwargs):  # writes a summary itself where TensorBoard is not installed
    if find_spec("tensorboard"):
        return keras.callbacks.TensorBoard(*args, **kwargs)
    write = lambda epoch, logs: tf.summary.write("loss", logs["loss"], step=epoch)
    writer = tf.summary.create_file_writer(args[0])
    writer.set_as_default()
    return keras.callbacks.LambdaCallback(on_epoch_end=write)

def new_model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model

model = new_model()

def print(*words, print=print):
    print("seen", *words)

to = sys.argv[1]
path = lambda *names: os.path.join(to, *names)

model.save(path("best.keras"))
model.save_weights(path("w.weights.h5"))
model.export(path("exported"), verbose=False)
keras.saving.save_model(model, path("other.h5"))
same = lambda other: bool(np.allclose(model.predict(x, verbose=0), other.predict(x, verbose=0)))
loaded = keras.saving.load_model(path("best.keras"))
again = new_model()
again.load_weights(path("w.weights.h5"))
other = keras.models.load_model(path("other.h5"), compile=False)
print("read back", same(loaded), same(again), same(other))
module = tf.saved_model.load(path("exported"))
print("served", module.serve(x).shape)

step = tf.Variable(0)
checkpoint = tf.train.Checkpoint(step=step)
manager = tf.train.CheckpointManager(checkpoint, path("managed"), max_to_keep=2)
print("from", manager.latest_checkpoint, manager.checkpoints)
checkpoint.restore(manager.latest_checkpoint)
print("restored", int(step))
for _ in range(3):
    step.assign_add(1)
    print("saved", manager.save())
step.assign(-1)
print("latest", tf.train.latest_checkpoint(path("managed")), manager.checkpoints)
checkpoint.restore(tf.train.latest_checkpoint(path("managed"))).assert_consumed()
print("restored", int(step), tf.train.list_variables(manager.latest_checkpoint))
print("written", checkpoint.write(path("plain", "w")), checkpoint.save(path("plain", "s")))
checkpoint.read(path("plain", "w"))
print("latest", tf.train.latest_checkpoint(path("plain")))
with tf.summary.create_file_writer(path("logs", "own")).as_default():
    tf.summary.write("loss", 1.0, step=1)
tf.saved_model.save(checkpoint, path("module"))
callbacks = [
    keras.callbacks.ModelCheckpoint(path("best.keras")),
    keras.callbacks.ModelCheckpoint(path("deep", "{epoch}.weights.h5"), save_weights_only=True),
    keras.callbacks.BackupAndRestore(path("backup"), delete_checkpoint=False),
    board(path("logs"), update_freq=1),
    keras.callbacks.CSVLogger(path("history.csv"), append=True),
]
print([callbacks[0].filepath, callbacks[2].backup_dir, callbacks[4].filename])
model.fit(x, y, batch_size=16, epochs=3, verbose=0, callbacks=callbacks)
"""


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for what a script writes, in that of the script; there are files already.

    PyTorch makes a folder for compiled kernels in the temporary folder, and leaves it.
    """
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "kernels"))
    folder = tmp_path / "project/outputs"
    for name in (
        *("best.pt", "model.safetensors", "step-0.pt", "logs/events.old", "open.pt"),
        *("best.keras", "w.weights.h5", "logs/own/events", "exported/saved_model.pb"),
    ):
        script(folder, "as it was", name)
    script(folder, "epoch,loss\n0,1.0\n", "history.csv")
    return folder


@pytest.fixture
def of_torch(outputs: Path) -> Path:
    """A checkpoint of PyTorch's among them."""
    torch = pytest.importorskip("torch")
    torch.save([1, 2], outputs / "earlier.pt")
    return outputs


@pytest.fixture
def of_tensorflow(outputs: Path) -> Path:
    """Checkpoints of TensorFlow's among them."""
    tf = pytest.importorskip("tensorflow")
    checkpoint = tf.train.Checkpoint(step=tf.Variable(7))
    manager = tf.train.CheckpointManager(checkpoint, str(outputs / "managed"), 2)
    for _ in range(2):
        manager.save()
    return outputs


def seen(output: str) -> list[str]:
    """The script's own output, without what libraries log."""
    return [line for line in output.splitlines() if line.startswith("seen")]


def compared(source: str, outputs: Path, tmp_path: Path, covered: bool) -> Recording:
    """Run a script alone, put back what it wrote over, run it observed: it saw the same."""
    project = outputs.parent
    script(project, source, "train.py")
    kept = tmp_path / "kept"
    shutil.copytree(outputs, kept, symlinks=True)
    command = python("train.py", str(outputs))
    alone = native(command, project, QUIET)
    assert alone.returncode == 0, alone.stdout
    assert seen(alone.stdout)
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
    times = {"measure_s": 0.5, "extra_s": 0.5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainperf.run.launch.clear", lambda folder: None)  # it is looked into
        recording = observed(command, project, run, QUIET, guarded=guarded, **times)
    assert snapshot(project) == before
    assert seen(recording.output_tail) == seen(alone.stdout)
    assert recording.ending in (Ending.MEASURED, Ending.FINISHED)
    assert not [note for note in events(recording, "note") if "redirected" in note["text"]]
    return recording


def test_a_covered_tree_is_byte_identical_and_the_script_sees_what_it_wrote(of_torch, tmp_path):
    source = WRITERS + OPEN + ATOMIC + KEEPING + GLOBBING + LOOP
    compared(source, of_torch, tmp_path, covered=True)


def test_without_a_view_the_writers_of_pytorch_touch_nothing(of_torch, tmp_path):
    compared(WRITERS + ATOMIC + KEEPING + LOOP, of_torch, tmp_path, covered=False)
    scratch = Path(f"{tmp_path}/run/scratch/local{of_torch}")
    for name in ("best.pt", "new.pt", "shards/.metadata"):
        assert (scratch / name).is_file()


def test_without_a_view_the_writers_of_keras_and_tensorflow_touch_nothing(of_tensorflow, tmp_path):
    compared(KERAS, of_tensorflow, tmp_path, covered=False)
    scratch = Path(f"{tmp_path}/run/scratch/local{of_tensorflow}")
    by_callbacks = ("best.keras", "deep/1.weights.h5", "backup/latest.weights.h5")
    saved = ("managed/ckpt-5.index", "exported/saved_model.pb", "module/saved_model.pb", "other.h5")
    for name in (*by_callbacks, *saved):
        assert (scratch / name).is_file(), name
    assert (scratch / "history.csv").read_text().startswith("epoch,loss\n0,1.0\n0,")
    assert len(list((scratch / "logs").rglob("events.out.*"))) >= 2
