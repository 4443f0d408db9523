"""Keras's `fit` on PyTorch, with each kind of input, run under observation."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainperf.model import Measure, Missing
from trainperf.report.sections.step import framework_line

pytest.importorskip("keras")

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

SCRIPT = Path(__file__).parent / "loops" / "keras_backend.py"


@pytest.mark.parametrize(
    "feeds",
    [
        *(
            pytest.param(feeds, marks=pytest.mark.long)
            for feeds in ("numpy", "PyDataset", "tf.data")
        ),
        "DataLoader",
    ],
)
def test_fit_is_seen_on_pytorch(run, feeds: str) -> None:
    extra_s = 0.0 if feeds == "numpy" else 1.2  # what the model is takes none of it
    _, found = run(str(SCRIPT), "torch", feeds, extra_s=extra_s)
    loop = found.loop
    assert (loop.kind, loop.input_kind, loop.epoch_steps) == ("fit", feeds, 40)
    assert (loop.batch_size, loop.epochs) == (16, 200)
    for taken in (found.times.real_, found.times.resident_, found.times.input_):
        assert isinstance(taken, Measure), taken
    assert " on PyTorch " in framework_line(found.framework)
    assert found.model.optimizer == "SGD"
    assert [one.name for one in found.callbacks if not one.builtin] == ["Losses"]
    assert found.between_epochs is not None
    assert found.between_epochs.epochs_seen > 1
    assert found.between_epochs.validation_s is not None
    ops = [] if isinstance(found.stages_, Missing) else [one.op for one in found.stages_]
    assert ops == {
        "tf.data": ["from_tensor_slices", "batch"],
        "DataLoader": ["sampler", "dataset item", "collate"],
    }.get(feeds, [])
