"""Nothing the user had is changed by observing their script, whatever it writes."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from kit.processes import events, native, observed, python, script
from trainperf.model import Ending, Recording
from trainperf.run import guarding, view
from trainperf.run.view import remove

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": "0"}


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder, and itself: mode, owner, mtime, content."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        owner = (status.st_uid, status.st_gid)
        seen[str(path.relative_to(folder))] = (
            stat.filemode(status.st_mode),
            *owner,
            status.st_mtime_ns,
            content,
        )
    return seen


def old(folder: Path) -> None:
    """Let everything in a folder have been there for long."""
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (1_600_000_000, 1_600_000_000))


MODEL = """
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
"""

OVERWRITING = (
    MODEL
    + """
here = os.path.dirname(os.path.abspath(__file__))
shutil.rmtree("logs", ignore_errors=True)
os.makedirs("logs")
os.rename("outputs", "outputs.old")
os.makedirs("outputs", exist_ok=True)
with open("history.csv", "a") as file:
    file.write("started\\n")
with open(os.path.join(here, "generated.py"), "w") as file:
    file.write("NEW = 1\\n")
with open(__file__, "a") as file:
    file.write("# touched\\n")
np.save("weights.npy", x)
model.fit(x, y, batch_size=8, epochs=3, verbose=0, callbacks=[
    keras.callbacks.ModelCheckpoint("checkpoints/best.keras", save_freq=4),
    keras.callbacks.BackupAndRestore("backup"),
    board("logs"),
    keras.callbacks.CSVLogger("history.csv", append=True),
])
model.save("checkpoints/last.keras")
print(sorted(os.listdir(".")), open("history.csv").read().count("started"))
"""
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("logs/train/events.old", "checkpoints/best.keras", "outputs/a/b", "generated.py"):
        script(folder, "as it was", name)
    script(folder, "epoch,loss\n0,1.0\n", "history.csv")
    script(folder, OVERWRITING, "train.py")
    (folder / "checkpoints/best.keras").chmod(0o600)
    old(folder)
    return folder


@pytest.mark.long  # each day a whole diagnosis leaves such a tree, see test_trials
def test_a_tree_is_byte_identical_after_a_script_that_overwrites_it_ran_in_the_view(
    project, tmp_path
):
    run = tmp_path / "run"
    run.mkdir()
    found = guarding.probe([str(project)], run, [run])
    if not found.folders:
        pytest.skip(found.unguarded[0])
    before = snapshot(project)
    command = view.enclosed(python("train.py"), found.folders, run / "view", [run])
    recording = observed(command, project, run, QUIET, measure_s=0.5, extra_s=0.5)
    remove(run / "view")

    assert recording.ending in (Ending.MEASURED, Ending.FINISHED), recording.output_tail
    assert len(events(recording, "step")) > 3
    assert snapshot(project) == before


def said(output: str) -> list[str]:
    """The script's output, without what TensorFlow logs."""
    return [line for line in output.splitlines() if not line.startswith(("I0000", "WARNING"))]


WRITING = (
    MODEL
    + """
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
)


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """The files of an earlier run of a script: checkpoints of TensorFlow's among them."""
    folder = tmp_path / "outputs"
    for name in ("best.keras", "w.weights.h5", "logs/own/events", "exported/saved_model.pb"):
        script(folder, "as it was", name)
    script(folder, "epoch,loss\n0,1.0\n", "history.csv")
    tf = pytest.importorskip("tensorflow")
    checkpoint = tf.train.Checkpoint(step=tf.Variable(7))
    manager = tf.train.CheckpointManager(checkpoint, str(folder / "managed"), 2)
    for _ in range(2):
        manager.save()
    old(folder)
    return folder


def compared(
    source: str, outputs: Path, tmp_path: Path
) -> tuple[subprocess.CompletedProcess[str], Recording]:
    """Run a script natively, put back what it wrote over, and run it observed."""
    script(tmp_path / "code", source, "train.py")
    kept = tmp_path / "kept"
    shutil.copytree(outputs, kept, symlinks=True)
    command = python("train.py", str(outputs))
    alone = native(command, tmp_path / "code", QUIET)
    assert alone.returncode == 0, alone.stdout
    shutil.rmtree(outputs)
    shutil.copytree(kept, outputs, symlinks=True)
    before = snapshot(outputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainperf.run.launch.clear", lambda folder: None)  # it is looked into
        recording = observed(command, tmp_path / "code", tmp_path / "run", QUIET)
    assert snapshot(outputs) == before
    return alone, recording


def test_without_a_view_the_writers_of_keras_and_tensorflow_touch_nothing(outputs, tmp_path):
    alone, recording = compared(WRITING, outputs, tmp_path)
    assert said(recording.output_tail) == said(alone.stdout)
    assert recording.ending in (Ending.MEASURED, Ending.FINISHED)
    scratch = Path(f"{tmp_path}/run/scratch/local{outputs}")
    by_callbacks = ("best.keras", "deep/1.weights.h5", "backup/latest.weights.h5")
    saved = ("managed/ckpt-5.index", "exported/saved_model.pb", "module/saved_model.pb", "other.h5")
    for name in (*by_callbacks, *saved):
        assert (scratch / name).is_file(), name
    assert (scratch / "history.csv").read_text().startswith("epoch,loss\n0,1.0\n0,")
    assert len(list((scratch / "logs").rglob("events.out.*"))) >= 2
    assert not [note for note in events(recording, "note") if "redirected" in note["text"]]
