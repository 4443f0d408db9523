"""Every style of training loop, run under observation and read back as evidence.

Of those that the zoo has, its recording is read, which is made anew each night.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import zoo
from kit.processes import events, observed, python
from trainperf import evidence
from trainperf.fixes.findings import shown_findings
from trainperf.fixes.tf_step.settings import TfDebugModes
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Evidence, Measure, Recording, Site

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

LOOPS = Path(__file__).parent / "loops"
ALL = ("real", "resident", "input")


@dataclass(frozen=True)
class Seen:
    """The view that there must be of a script: `line` holds the text of the loop's line."""

    script: str
    kind: str
    batch: int
    line: str
    arguments: tuple[str, ...] = ()
    measured: tuple[str, ...] = ALL
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
    Seen("eager_fit.py", "fit", 32, "model.fit(", feeds="tensors"),
    Seen("generator.py", "fit", 32, "model.fit(", feeds="generator"),
    Seen("pydataset.py", "fit", 32, "model.fit(", feeds="PyDataset"),
    Seen("workers.py", "fit", 32, "model.fit(", feeds="PyDataset"),
    Seen("distributed_fit.py", "fit", 64, "model.fit(", facts={"replicas": 2}),
    Seen(
        "several_fits.py",
        "fit",
        32,
        "model.fit(",
        feeds="numpy",
        facts={"callbacks_given": ("Log",)},
    ),
    Seen("six_steps.py", "fit", 32, "model.fit(", feeds="numpy", facts={"epoch_steps": 6}),
    Seen(
        "train_on_batch.py",
        "call",
        64,
        "model.train_on_batch(",
        measured=("real", "resident"),
        feeds="arrays in the loop",
    ),
    Seen("custom_eager.py", "iterator", 32, "for images", function="train_step", compiled=False),
    Seen("custom_function.py", "iterator", 32, "for images", function="train_step"),
    Seen("by_hand.py", "iterator", 32, "for step", compiled=False),
    Seen("by_hand_function.py", "iterator", 32, "for images", function="step"),
    Seen(
        "distributed.py",
        "iterator",
        64,
        "for inputs",
        stages=(("batch", "dataset = "), ("shuffle", "dataset = ")),
    ),
    Seen("early_exit.py", "iterator", 32, "for step, (x, y)", function="train_step"),
    Seen(
        "with_next.py",
        "iterator",
        16,
        "next(iterator)",
        function="train_step",
        stages=(
            ("from_tensor_slices", ".from_tensor_slices(data)"),
            ("map", ".map(double)"),
            ("repeat", ".repeat()"),
            ("batch", ".batch(16)"),
            ("prefetch", ".prefetch(2)"),
        ),
    ),
    Seen("next_inside.py", "iterator", 16, "train_step(iterator)", function="train_step"),
    Seen("accumulation.py", "iterator", 64, "for step, (x, y)"),
    Seen("gan.py", "iterator", 32, "for real", function="train_step", compiled=False),
    Seen("two_datasets.py", "iterator", 32, "for x, y", function="train_step"),
    Seen("retracing.py", "iterator", 32, "for x, y", function="train_step"),
]


Run = Callable[..., tuple[Recording, Evidence]]


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, ...], tuple[Recording, Evidence]]:
    return {}


@pytest.fixture
def run(tmp_path: Path, kept: dict[tuple[str, ...], tuple[Recording, Evidence]]) -> Run:
    """Run a command under observation, or recall that it was: here, or for the zoo."""

    def once(*command: str) -> tuple[Recording, Evidence]:
        if command not in kept and in_zoo(*command):
            recorded = zoo.load(in_zoo(*command))
            kept[command] = recorded.recording, recorded.evidence
        if command not in kept:
            work = tmp_path / "work"
            work.mkdir()
            recording = observed(
                python(*command),
                work,
                tmp_path / "run",
                {"PYTHONPATH": str(LOOPS), "TF_CPP_MIN_LOG_LEVEL": "3"},
                measure_s=1.5,
                extra_s=2.0,
            )
            assert recording.ending is Ending.MEASURED, recording.output_tail
            assert [event["text"] for event in events(recording, "note")] == []
            assert "Traceback" not in recording.output_tail
            assert list(work.iterdir()) == []
            kept[command] = recording, evidence.read(recording, inspect_machine(directory=work))
        return kept[command]

    return once


def in_zoo(script: str, *arguments: str) -> str:
    """The name of the zoo's recording of a script, if there is one."""
    name = f"loop_{Path(script).stem}"
    return name if not arguments and name in zoo.SCRIPTS else ""


def text_at(site: Site | None) -> str:
    assert site is not None
    return Path(site.file).read_text(encoding="utf-8").splitlines()[site.line - 1]


SENTINELS = ("custom_function.py",)
"""Of those that are run, these run each day, the others nightly."""


def told(seen: Seen) -> Any:
    daily = seen.script in SENTINELS or in_zoo(seen.script, *seen.arguments)
    marks = [] if daily else [pytest.mark.long]
    return pytest.param(seen, id=" ".join((seen.script, *seen.arguments)), marks=marks)


@pytest.mark.parametrize("seen", [told(style) for style in STYLES])
def test_a_loop_of_this_style_is_seen_and_timed(run, seen):
    _, found = run(str(LOOPS / seen.script), *seen.arguments)
    assert found.loop.kind == seen.kind
    assert found.loop.batch_size == seen.batch
    assert found.loop.input_kind == seen.feeds
    assert seen.line in text_at(found.loop.where)
    for name in ALL:
        measure = getattr(found.times, f"{name}_")
        assert isinstance(measure, Measure) == (name in seen.measured), (name, measure)
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
    assert (traced > 3) == (seen.script == "retracing.py")  # odd last batches are no matter
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


def test_the_functions_of_the_user_behind_a_slow_input_are_named(run):
    _, found = run(str(LOOPS / "pydataset.py"))
    (dearest, *_) = found.functions
    assert (dearest.name, dearest.thread) == ("Slow.__getitem__", "worker")
    assert found.input_bound


def test_an_eager_step_is_tried_compiled(run):
    _, found = run(str(LOOPS / "gan.py"))
    assert found.probe("compiled").ratio > 1


@pytest.mark.long
def test_retracing_is_counted_with_its_cause(run):
    _, found = run(str(LOOPS / "retracing.py"))
    assert found.retracing.count >= 0.9 * found.retracing.steps
    assert found.retracing.function == "train_step"
    assert "the Python number `" in found.retracing.cause
    (number,) = found.retracing.numbers
    assert text_at(number.where).strip() == "train_step(x, y, step)"


def test_a_users_callback_is_priced_with_its_place(run):
    _, found = run(str(LOOPS / "several_fits.py"))
    (log,) = [cost for cost in found.callbacks if not cost.builtin]
    assert log.name == "Log"
    assert log.batch_s > 0
    assert "Log()" in text_at(log.where)
    assert "def on_train_batch_end" in text_at(log.methods["on_train_batch_end"])


def test_what_stands_between_two_fits_is_seen_with_its_share(run):
    _, found = run(str(LOOPS / "several_fits.py"))
    turn = found.outside
    assert (turn.turn, turn.steps, turn.whole) == ("fit", 50, True)
    assert text_at(found.around).startswith("for round_ in range")
    (evaluation,) = [one for one in turn.spent if one.what == "evaluation"]
    assert (evaluation.name, evaluation.calls) == ("evaluate", pytest.approx(1.0))
    assert "model.evaluate(" in text_at(evaluation.where)
    assert sum(one.seconds for one in turn.spent) < turn.seconds


def test_debug_modes_are_seen_with_the_lines_that_turn_them_on(run):
    _, found = run(str(LOOPS / "debugged.py"))
    modes = found.facts["tf_debug_modes"]
    assert sorted(modes) == ["deterministic", "numerics"]
    assert "enable_op_determinism" in text_at(Site(**modes["deterministic"]))
    assert "stack_height_limit" in text_at(Site(**modes["numerics"]))
    (finding,) = shown_findings(found, among=[TfDebugModes()])
    assert "check_numerics" in finding.title


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
