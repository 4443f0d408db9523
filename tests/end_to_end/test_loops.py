"""Styles of loops of which the zoo has no recording, run and read back as evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kit.processes import events, observed, python
from trainperf.model import Ending, Measure, Site

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

LOOPS = Path(__file__).parent / "loops"


@dataclass(frozen=True)
class Seen:
    """The view that there must be of a script: `line` holds the text of the loop's line."""

    script: str
    kind: str
    batch: int
    line: str
    arguments: tuple[str, ...] = ()
    feeds: str = "tf.data"
    stages: tuple[tuple[str, str], ...] = ()  # op, and text of the line that built it
    function: str = ""  # the step function, where the user wrote one
    compiled: bool = True
    facts: dict[str, object] = field(default_factory=dict)


STYLES = [
    Seen(
        "numpy_fit.py",
        "fit",
        32,
        "model.fit(",
        ("--epochs", "50"),
        feeds="numpy",
        stages=(("NumPy arrays", "model.fit("),),
        facts={"epochs": 50, "epoch_steps": 57},
    ),
    Seen(
        "numpy_fit.py",
        "fit",
        32,
        "model.fit(",
        ("--epochs", "50", "--multi", "4"),
        feeds="numpy",
        facts={"steps_per_execution": 4},
    ),
    Seen("generator.py", "fit", 32, "model.fit(", feeds="generator"),
    Seen("workers.py", "fit", 32, "model.fit(", feeds="PyDataset"),
    Seen("six_steps.py", "fit", 32, "model.fit(", feeds="numpy", facts={"epoch_steps": 6}),
    Seen("custom_eager.py", "iterator", 32, "for images", function="train_step", compiled=False),
    Seen("custom_function.py", "iterator", 32, "for images", function="train_step"),
    Seen("by_hand_function.py", "iterator", 32, "for images", function="step"),
    Seen(
        "distributed.py",
        "iterator",
        64,
        "for inputs",
        stages=(("batch", "dataset = "), ("shuffle", "dataset = ")),
    ),
    Seen("early_exit.py", "iterator", 32, "for step, (x, y)", function="train_step"),
    Seen("next_inside.py", "iterator", 16, "train_step(iterator)", function="train_step"),
    Seen("accumulation.py", "iterator", 64, "for step, (x, y)"),
]


def text_at(site: Site | None) -> str:
    assert site is not None
    return Path(site.file).read_text(encoding="utf-8").splitlines()[site.line - 1]


def told(seen: Seen) -> Any:
    """One is run each day, the others nightly."""
    marks = [] if seen.script == "custom_function.py" else [pytest.mark.long]
    return pytest.param(seen, id=" ".join((seen.script, *seen.arguments)), marks=marks)


@pytest.mark.parametrize("seen", [told(style) for style in STYLES])
def test_a_loop_of_this_style_is_seen_and_timed(run, seen):
    _, found = run(str(LOOPS / seen.script), *seen.arguments)
    assert found.loop.kind == seen.kind
    assert found.loop.batch_size == seen.batch
    assert found.loop.input_kind == seen.feeds
    assert seen.line in text_at(found.loop.where)
    for measure in (found.times.real_, found.times.resident_, found.times.input_):
        assert isinstance(measure, Measure), measure
    assert found.times.real_.blocks
    if seen.stages:
        built = {stage.op: stage for stage in found.stages}
        for op, line in seen.stages:
            assert line in text_at(built[op].where)
            assert isinstance(built[op].cumulative, float)
    if seen.kind != "fit" and (seen.function or not seen.compiled):
        assert found.step_function is not None
        assert found.step_function.compiled == seen.compiled
    if seen.function:
        assert found.step_function.name == seen.function
        assert f"def {seen.function}" in "".join(
            Path(found.step_function.where.file)
            .read_text()
            .splitlines()[found.step_function.where.line - 1 : found.step_function.where.line + 1]
        )
    for name, value in seen.facts.items():
        assert getattr(found.loop, name) == value, name
    traced = found.retracing.count if found.retracing else 0
    assert traced <= 3  # odd last batches are no matter
    assert found.startup is not None
    assert found.models or seen.script.startswith("by_hand")


def test_a_package_started_as_a_module_is_seen_in_its_own_files(run):
    _, found = run("-m", "package.train", "--batch-size", "16")
    assert (found.loop.kind, found.loop.batch_size) == ("fit", 16)
    assert Path(found.loop.where.file).name == "train.py"
    stages = {stage.op: stage for stage in found.stages}
    assert Path(stages["map"].where.file).name == "data.py"
    assert "dataset.map(load)" in text_at(stages["map"].where)
    assert stages["map"].function.name == "load"
    assert Path(found.model.compile_where.file).name == "model.py"


@pytest.mark.long
def test_an_epochs_end_is_timed_with_its_validation(run):
    _, found = run(str(LOOPS / "numpy_fit.py"), "--epochs", "50")
    assert found.between_epochs is not None
    assert found.between_epochs.epoch_steps == 57
    assert found.between_epochs.validation_s > 0
    assert found.between_epochs.seconds >= found.between_epochs.validation_s


@pytest.mark.long
def test_an_empty_dataset_is_no_training_loop(tmp_path):
    recording = observed(python(str(LOOPS / "empty.py")), tmp_path, tmp_path / "run")
    assert recording.ending is Ending.FINISHED
    assert [event for event in events(recording, "step") if event["p"] != "first"] == []
