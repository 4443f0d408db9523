"""The losses of every style of loop, as a leg keeps them; and that a seed repeats them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from kit.processes import observed, python, script
from trainperf.model import Equivalence, Leg, Recording
from trainperf.trial.parity import Losses, control, judge, read_losses

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

LEG = """
import json, sys
from trainperf.child.start import seed_all
from trainperf.child.start import PostImport
from trainperf.child.process.process import Process
from trainperf.child.start import Frameworks
from trainperf.child.timing.drivers.driver import Driver
from trainperf.child.timing.loop import Plan
from trainperf.child.timing.training import Training
settings = json.loads(sys.argv[1])
leg, settings["leg"] = settings["leg"], None  # keep losses, but take no turns
process = Process({**settings, "leg": leg})
training = Training(process)
process.settings = settings
seed_all(settings["seed"], process)
PostImport(Frameworks(training).hooks(), process.failed).install()
Plan._settled = lambda plan: False  # it warms up for ever: each step is one of the script's
Driver.wants_more = property(lambda self: training.losses.updates < settings["until"])
sys.argv = sys.argv[2:]
source = open(sys.argv[0]).read()
exec(compile(source, sys.argv[0], "exec"), {"__name__": "__main__"})
training.losses.flush()
process.record.flush()
"""
"""A process that keeps losses as a leg does, but takes no turns: `until` so many updates
its loop goes on past the end of an epoch, as that of a leg does, then as the script says."""

DATA = """
    import numpy as np, tensorflow as tf, keras
    rng = np.random.default_rng()
    x = rng.normal(size=(80, 6)).astype("float32")
    y = (x[:, 0] > 0).astype("float32")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"),
                              keras.layers.Dense(1)])
    def mean_square(y, p):
        return tf.reduce_mean(tf.square(y[:, None] - tf.cast(p, tf.float32)))
    optimizer = keras.optimizers.Adam(0.01)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
"""
FIT = DATA + 'model.compile("adam", "mse", {});model.fit(data, epochs={}, verbose=0)\n'
UNKNOWN_LENGTH = "data = data.filter(lambda a, b: True);"
STEP = """
    def step(xb, yb):
        with tf.GradientTape() as tape:
            loss = mean_square(yb, model(xb, training=True))
        optimizer.apply_gradients(zip(
            tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return {}
    {}
    for epoch in range(2):
        for xb, yb in data:
            step(xb, yb)
"""


KEPT: dict[tuple[str, int], Losses] = {}


def losses_of(tmp_path: Path, source: str, until: int = 0) -> Losses:
    """The losses that a script shows, which is run once in a process of tests."""
    if (source, until) not in KEPT:
        seen = read_losses(run(tmp_path, source, until))
        assert seen is not None
        KEPT[source, until] = seen
    return KEPT[source, until]


def run(tmp_path: Path, source: str, until: int) -> list[dict[str, object]]:
    folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    settings = {
        "folder": str(folder),
        "parent": 1,
        "steps": None,
        "measure_s": 1e6,
        "extra_s": 0.0,
        "seed": 5,
        "leg": asdict(Leg(8)),
        "until": until,
    }
    lines = [line.removeprefix("    ") for line in source.split("\n")]
    file = script(folder, "\n".join(lines))
    command: Sequence[str] = (sys.executable, "-c", LEG, json.dumps(settings), str(file))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    events = [
        json.loads(line)
        for one in folder.glob("events-*.jsonl")
        for line in one.read_text().splitlines()
    ]
    assert [event for event in events if event["e"] == "note"] == []
    return events


def test_fit_shows_the_mean_loss_since_the_epoch_began_at_each_update(tmp_path: Path) -> None:
    seen = losses_of(tmp_path, FIT.format("", 2))
    assert (seen.kind, seen.source) == ("loss", "fit")
    assert sorted(seen.values) == list(range(1, 21))
    assert [seen.means[n] for n in (1, 10, 11, 20)] == [1, 10, 1, 10]


@pytest.mark.parametrize(
    ("until", "wrap"),
    [
        (0, ""),
        (30, UNKNOWN_LENGTH),
        pytest.param(0, UNKNOWN_LENGTH, marks=pytest.mark.long),
        pytest.param(30, "", marks=pytest.mark.long),
    ],
)
def test_several_steps_in_one_call_have_the_losses_of_the_same_updates(
    tmp_path: Path, wrap: str, until: int
) -> None:
    # Not Adam: where the length of an epoch is not known, Keras 3 counts one update too
    # many at its end, but not with several steps in a call; Adam's next updates differ.
    source = FIT.replace("model.comp", wrap + "model.comp").replace('"adam"', '"sgd"')
    one = losses_of(tmp_path, source.format("", 3), until)
    four = losses_of(tmp_path, source.format("steps_per_execution=4", 3), until)
    assert sorted(four.values)[:9] == [4, 8, 10, 14, 18, 20, 24, 28, 30]
    parity = judge(Equivalence.EXACT, one, four, control(one, one))
    assert parity.ok, parity.text
    assert parity.text.endswith("losses equal to rounding")


def test_an_eager_loop_and_its_compiled_step_show_the_same_losses(tmp_path: Path) -> None:
    eager = losses_of(tmp_path, DATA + STEP.format("loss", ""))
    compiled = losses_of(tmp_path, DATA + STEP.format("loss", "step = tf.function(step)"))
    xla = losses_of(
        tmp_path,
        DATA + STEP.format("model.losses, loss", "step = tf.function(step, jit_compile=True)"),
    )
    assert (eager.source, compiled.source) == ("tape", "output")
    assert sorted(eager.values) == sorted(compiled.values) == list(range(1, 21))
    for other in (compiled, xla):
        parity = judge(Equivalence.NUMERICS, eager, other, control(eager, eager))
        assert parity.ok, parity.text
        assert parity.text.startswith("losses within")


def test_a_step_that_returns_nothing_is_compared_by_its_weights(tmp_path: Path) -> None:
    eager = losses_of(tmp_path, DATA + STEP.format("loss", ""))
    compiled = losses_of(tmp_path, DATA + STEP.format("None", "step = tf.function(step)"))
    assert compiled.kind == "weights"
    assert sorted(eager.weights) == [1, 2, 4, 8]
    assert sorted(compiled.values) == [1, 2, 4, 8, 20]
    parity = judge(Equivalence.EXACT, eager, compiled, control(eager, eager))
    assert parity.text == "4 sums of weights equal to rounding"


def test_train_on_batch_and_other_precisions_are_read(tmp_path: Path) -> None:
    each = losses_of(
        tmp_path,
        DATA
        + 'model.compile("adam", "mse")\n'
        + "    for n in range(8): model.train_on_batch(x[n:n+8], y[n:n+8])\n",
    )
    assert (each.source, sorted(each.values)) == ("train_on_batch", list(range(1, 9)))
    for kind in ("float16", "bfloat16"):
        ended = f"tf.cast(loss * float('nan'), tf.{kind})"
        nan = losses_of(tmp_path, DATA + STEP.format(ended, "step = tf.function(step)"))
        assert all(value != value for value in nan.values.values())
        parity = judge(Equivalence.NUMERICS, nan, nan, control(nan, nan))
        assert parity.text == "sums of weights within 0 % (4 compared)"


def test_the_mean_over_replicas_is_kept(tmp_path: Path) -> None:
    source = (
        """
    import tensorflow as tf
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    scope = strategy.scope()
    scope.__enter__()
"""
        + DATA
        + """
    optimizer.build(model.trainable_variables)
    def step(batch):
        xb, yb = batch
        with tf.GradientTape() as tape:
            loss = mean_square(yb, model(xb, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss
    @tf.function
    def whole(batch):
        return strategy.run(step, args=(batch,))
    for batch in strategy.experimental_distribute_dataset(data):
        loss = whole(batch)
    print(loss)
"""
    )
    seen = losses_of(tmp_path, source)
    assert (seen.kind, sorted(seen.values)) == ("loss", list(range(1, 11)))


SEEDED = """
import random
import numpy as np, tensorflow as tf, keras
print("drawn", random.random(), np.random.rand(), np.random.default_rng().random(),
      np.random.default_rng().random(), float(tf.random.normal([])))
x = np.random.default_rng().normal(size=(64, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(64).batch(16)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dropout(0.5),
                          keras.layers.Dense(1)])
model.compile("adam", "mse")
print("losses", [model.train_on_batch(*batch) for batch in list(data)[:3]])
random.seed(3), np.random.seed(3), tf.random.set_seed(3)
print("own", [random.random(), np.random.rand(), float(tf.random.normal([]))])
"""


def said(recording: Recording) -> dict[str, str]:
    lines = (line.partition(" ") for line in recording.output_tail.splitlines())
    return {name: rest for name, _, rest in lines if name in ("drawn", "losses", "own")}


def test_two_processes_with_one_seed_draw_shuffle_and_train_alike(tmp_path: Path) -> None:
    command = python(str(script(tmp_path, SEEDED)))
    runs = [
        said(observed(command, tmp_path, tmp_path / f"run{n}", seed=seed))
        for n, seed in enumerate((11, 11, 12))
    ]
    assert runs[0] == runs[1]
    assert runs[0]["losses"] != runs[2]["losses"]
    drawn = runs[0]["drawn"].split()
    assert len(set(drawn)) == len(drawn)
    assert runs[0]["own"] == runs[2]["own"], "a seed the script sets itself wins"
    import random

    assert ast.literal_eval(runs[0]["own"])[0] == random.Random(3).random()
