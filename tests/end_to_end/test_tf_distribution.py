"""Training on several devices and in several processes with TensorFlow, observed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.legs import repeated
from kit.processes import events, observed, python, script
from trainperf.model import Ending, Event, Recording

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

TWO_DEVICES = """
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""

DATA = """
data = tf.data.Dataset.from_tensor_slices((tf.random.normal((256, 64)), tf.random.normal((256, 1))))
data = data.shuffle(256).batch(8, drop_remainder=True)
"""

MODEL = """
def build(width=64):
    return tf.keras.Sequential(
        [
            tf.keras.Input((64,)),
            tf.keras.layers.Dense(width, activation="relu"),
            tf.keras.layers.Dense(width),
            tf.keras.layers.Dense(1),
        ]
    )
"""

LOOP = """
with strategy.scope():
    model = build()
    optimizer = tf.keras.optimizers.SGD(0.001)
    optimizer.build(model.trainable_variables)

def replica(batch):
    x, y = batch
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((model(x, training=True) - y) ** 2) / 8.0
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss

@tf.function
def step(batch):
    return strategy.reduce("SUM", strategy.run(replica, args=(batch,)), axis=None)

def train(batches):
    for epoch in range(400):
        for batch in batches:
            step(batch)
"""

MIRRORED = TWO_DEVICES + 'strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])\n'
WORKERS = """
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
"""

LAUNCHER = """
import json, os, socket, subprocess, sys

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
workers = [f"localhost:{one.getsockname()[1]}" for one in sockets]
for one in sockets:
    one.close()
children = []
for index in range(2):
    place = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
    children.append(
        subprocess.Popen(
            [sys.executable, sys.argv[1]], env={**os.environ, "TF_CONFIG": json.dumps(place)}
        )
    )
sys.exit(max(child.wait() for child in children))
"""


def run(tmp_path: Path, source: str, *launcher: str, **settings: Any) -> Recording:
    work = tmp_path / "work"
    path = script(work, source, "train.py")
    words = tuple(str(script(work, text, "launcher.py")) for text in launcher)
    return observed(
        python(*words, str(path)),
        work,
        tmp_path / "run",
        {"TF_CPP_MIN_LOG_LEVEL": "3"},
        **{"measure_s": 1.0, "extra_s": 6.0, **settings},
    )


def last(recording: Recording, kind: str) -> Event:
    found = events(recording, kind)
    assert found, f"{kind}: {missing(recording)}"
    return found[-1]


def blocks(recording: Recording, phase: str) -> list[float]:
    """Seconds per step of each block of a phase."""
    return [e["d"] / e["n"] for e in events(recording, "block") if e["p"] == phase]


def line_of(source: str, text: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def notes(recording: Recording) -> list[str]:
    return [event["text"] for event in events(recording, "note")]


def missing(recording: Recording) -> dict[str, str]:
    return {event["what"]: event["reason"] for event in events(recording, "missing")}


@repeated
def test_fit_on_two_devices_is_timed_with_and_without_the_exchange(tmp_path):
    source = (
        MIRRORED
        + DATA
        + MODEL
        + (
            "with strategy.scope():\n"
            "    model = build(2048)\n"
            '    model.compile("sgd", "mse")\n'
            "model.fit(data.repeat(4), epochs=100, verbose=2)\n"
        )
    )
    recording = run(tmp_path, source, measure_s=2.0)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert notes(recording) == []
    strategy = last(recording, "tf_strategy")
    assert strategy["cls"] == "MirroredStrategy"
    assert strategy["where"]["line"] == line_of(source, "strategy = ")
    assert (strategy["replicas"], strategy["workers"]) == (2, 1)
    assert [device[-5:] for device in strategy["devices"]] == ["CPU:0", "CPU:1"]
    assert strategy["cross_device_ops"] == "CollectiveAllReduce (RING)"
    assert strategy["models_outside"] == []
    assert strategy["distributed"] is True
    exchange = last(recording, "exchange")
    weights = 64 * 2048 + 2048 + 2048 * 2048 + 2048 + 2048 + 1
    assert exchange["bytes"] == 4 * weights
    assert (exchange["method"], exchange["replicas"]) == ("MirroredStrategy", 2)
    assert min(blocks(recording, "local")) < min(blocks(recording, "real"))
    in_step = [event for event in events(recording, "trace") if event["in_step"]]
    assert len(in_step) == 1  # the graph without exchange is ours


def test_a_model_built_outside_of_the_scope_is_named_and_exchanges_nothing(tmp_path):
    source = (
        MIRRORED
        + DATA
        + MODEL
        + (
            "model = build()\n"
            'model.compile("sgd", "mse")\n'
            "model.fit(data.repeat(4), epochs=100, verbose=2)\n"
        )
    )
    recording = run(tmp_path, source)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    strategy = last(recording, "tf_strategy")
    sites = {site["line"] for site in strategy["models_outside"]}
    assert sites == {line_of(source, "return tf.keras.Seq")}
    assert strategy["distributed"] is False
    assert events(recording, "exchange") == []
    assert blocks(recording, "local") == []


@pytest.mark.parametrize(
    ("batches", "distributed"),
    [
        ("strategy.experimental_distribute_dataset(data)", True),
        ("strategy.distribute_datasets_from_function(lambda context: data)", True),
        ("data", False),
    ],
)
def test_a_loop_of_the_users_own_on_two_devices_is_seen(tmp_path, batches, distributed):
    source = MIRRORED.replace('"CPU:1"])', '"CPU:1"], tf.distribute.ReductionToOneDevice())')
    source += DATA + MODEL + LOOP + f"train({batches})\n"
    recording = run(tmp_path, source)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert notes(recording) == []
    assert [event["kind"] for event in events(recording, "loop")] == ["iterator"]
    for phase in ("real", "local", "resident"):
        assert blocks(recording, phase), phase
    strategy = last(recording, "tf_strategy")
    assert strategy["distributed"] is distributed
    assert strategy["dataset_where"]["line"] == line_of(source, "data = data.shuffle")
    assert strategy["cross_device_ops"] == "ReductionToOneDevice"
    assert last(recording, "exchange")["bytes"] == 4 * (2 * 64 * 64 + 3 * 64 + 1)
    assert last(recording, "facts")["epoch_steps"] == 32
    function = last(recording, "step_function")
    assert (function["name"], len(function["signatures"])) == ("step", 1)


def test_two_workers_go_through_all_phases_together(tmp_path):
    source = WORKERS + DATA + MODEL + LOOP
    source += "train(strategy.experimental_distribute_dataset(data))\n"
    recording = run(tmp_path, source, LAUNCHER)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert notes(recording) == []
    ranks = {
        event["rank"]: one
        for one in recording.events.values()
        for event in one
        if event["e"] == "rank"
    }
    assert sorted(ranks) == [0, 1]
    steps = [[(e["p"], e["b"], e["n"]) for e in one if e["e"] == "block"] for one in ranks.values()]
    assert steps[0] == steps[1]
    assert {phase for phase, _, _ in steps[0]} >= {"real", "local", "resident"}
    assert missing(recording)["input"] == "the workers of a strategy ask each other for every batch"
    assert len(events(recording, "exchange")) == 2, missing(recording)
    strategy = last(recording, "tf_strategy")
    assert (strategy["cls"], strategy["workers"]) == ("MultiWorkerMirroredStrategy", 2)
    # no rank went on with empty batches: such a step is traced anew
    assert {len(event["signatures"]) for event in events(recording, "step_function")} == {1}


def test_gradients_of_an_embedding_are_counted_by_their_rows(tmp_path):
    source = MIRRORED + (
        """
words = tf.random.uniform((256, 4), 0, 100, tf.int32)
data = tf.data.Dataset.from_tensor_slices((words, tf.random.normal((256, 1))))
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.layers.Embedding(100, 16), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
model.fit(data.batch(8, drop_remainder=True).repeat(20), epochs=100, verbose=2)
"""
    )
    recording = run(tmp_path, source)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    rows, dense = 4 * 4 * (4 * 16 + 4), 4 * (4 * 16 + 1)  # four samples of four words a replica
    assert last(recording, "exchange")["bytes"] == rows + dense
    assert blocks(recording, "local")
