"""Legs of a real Keras script: what changes the training is told from what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.legs import base_run, changed, clock, queue, written
from trainperf.model import Outcome
from trainperf.trial.outcome import trial

pytestmark = [
    pytest.mark.alone,
    pytest.mark.long,  # each day test_trials keeps a change whose losses are compared
    pytest.mark.timeout(200),
    pytest.mark.usefixtures("nothing_left"),
]

SCRIPT = """
import time
import numpy as np
from tensorflow import keras

x = np.random.rand(8000, 16).astype("float32")
y = x @ np.random.rand(16, 1).astype("float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)

model.fit(x, y, batch_size=16, epochs=50, verbose=0, callbacks=[Slow()])
"""


def test_the_losses_of_the_legs_tell_a_faster_script_from_another_training(tmp_path: Path) -> None:
    script = written(tmp_path, SCRIPT)
    run = base_run(script, seed=7)
    faster = SCRIPT.replace("0.02)", "0.005)")
    same = changed(run, script, faster, "same")
    other = changed(run, script, faster.replace("Adam(0.01)", "Adam(0.05)"), "other")
    shifted = changed(
        run, script, faster.replace("model.fit(x, y", "model.fit(x[16:], y[16:]"), "shift"
    )
    with queue(run, tmp_path) as engine:
        measured = engine.compare([same, other, shifted], clock(120))
        baseline = engine.baseline()
    assert baseline.control is not None
    assert baseline.control.reproducible
    found = {one.name: trial(one, baseline) for one in measured}
    assert found["same"].outcome is Outcome.KEPT, found["same"]
    assert found["other"].outcome is Outcome.LOSSES_DIFFER, found["other"]
    assert found["shift"].outcome is Outcome.LOSSES_DIFFER, found["shift"]
    assert not found["other"].kept


def test_a_script_that_differs_from_itself_is_judged_by_its_own_spread(tmp_path: Path) -> None:
    source = SCRIPT.replace("import time\n", "import os, time\n").replace(
        "np.random.rand(8000, 16)", "np.random.default_rng(os.getpid()).random((8000, 16))"
    )
    script = written(tmp_path, source)
    run = base_run(script, seed=7)
    with queue(run, tmp_path) as engine:
        (measured,) = engine.compare(
            [changed(run, script, source.replace("0.02)", "0.005)"))], clock(120)
        )
        baseline = engine.baseline()
    assert baseline.control is not None
    assert baseline.control.reproducible is False
    came = trial(measured, baseline)
    assert came.outcome is Outcome.KEPT, came
