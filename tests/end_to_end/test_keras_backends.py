"""Keras's `fit` on PyTorch, with each kind of input, run under observation."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.processes import events, observed, python
from trainperf import evidence
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Measure, Missing
from trainperf.report.sections.step import framework_line

pytest.importorskip("keras")

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

SCRIPT = Path(__file__).parent / "loops" / "keras_backend.py"
ENV = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


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
def test_fit_is_seen_on_pytorch(tmp_path: Path, feeds: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    command = python(str(SCRIPT), "torch", feeds)
    env = {**ENV, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")}
    extra_s = 0.0 if feeds == "numpy" else 1.2  # what the model is takes none of it
    recording = observed(command, work, tmp_path / "run", env, measure_s=1.2, extra_s=extra_s)
    assert recording.ending is Ending.MEASURED, recording.output_tail
    assert [event["text"] for event in events(recording, "note")] == []
    assert "Traceback" not in recording.output_tail
    found = evidence.read(recording, inspect_machine(directory=work))
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
