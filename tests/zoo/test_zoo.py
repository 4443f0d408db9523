"""The recordings of the zoo are readable, say nothing impossible, and are answered as before."""

from __future__ import annotations

import lzma
import math
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest

import zoo
from trainperf.fixes import by_id
from trainperf.model import Evidence, Finding, Probe, is_taken
from zoo import oracle

LARGEST = 1e4
"""No change makes a step ten thousand times as fast."""
KIB = 1024


@pytest.mark.parametrize("name", zoo.SCRIPTS)
def test_a_recording_is_read_whole_and_answered_as_before_by_figures_that_can_be(name: str) -> None:
    recorded = zoo.load(name)
    assert recorded.recording.ending.complete
    assert recorded.evidence.unread == ()
    first, possible = oracle.diagnose(recorded)
    assert [note for note in first.notes if "could not be read" in note or "failed" in note] == []
    assert [*impossible(msgspec.to_builtins((first, possible)))] == []
    figures = (beyond(one, recorded.evidence) for one in (*first.findings, *possible))
    assert [*chain.from_iterable(figures)] == []
    assert oracle.answer(first, possible, recorded.recording.run) == oracle.kept_answer(name), (
        f"look at the diff that `cd tests && python -m zoo.oracle {name}` makes"
    )


def impossible(value: Any, at: str = "") -> Iterator[str]:
    """Shares of more than all, ratios beyond reason, and percentages above a hundred in texts."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from impossible(inner, f"{at}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from impossible(inner, f"{at}[{index}]")
    elif isinstance(value, float):
        name = at.rpartition(".")[2]
        if not math.isfinite(value):
            yield f"{at} is {value}"
        if "share" in name or name == "utilization":
            if not 0 <= value <= 1.001:
                yield f"{at} is {value}"
        elif name in ("bound", "ratio", "speedup", "low", "high") and not 0 <= value <= LARGEST:
            yield f"{at} is {value}"
    elif isinstance(value, str):
        for number in re.findall(r"(?<![±\d.])(\d+(?:\.\d+)?) %", value):
            if float(number) > 100:
                yield f"{at}: {number} % in {value!r}"
        for number in re.findall(r"(\d[\d,]*(?:\.\d+)?)×", value):
            if float(number.replace(",", "")) > LARGEST:
                yield f"{at}: {number}× in {value!r}"


def beyond(finding: Finding, evidence: Evidence) -> Iterator[str]:
    """Bounds above what a finding's part takes, above its probe, or of no unit of work."""
    times, fix, bound = evidence.times, by_id()[finding.id], finding.bound
    if finding.id == "batch_size" and not (evidence.loop.batch_size or finding.data):
        yield "batch_size: of no unit of work"
    if bound is None:
        return
    limits = {"its favourable end": finding.at_best}
    probe = evidence.probes.get(fix.probed_by)
    if isinstance(probe, Probe):
        whole = {"batch_size": 4.0, "keras_steps_per_execution": math.inf}
        limits["its probe"] = max(1.0, whole.get(fix.id, probe.ratio))
    if fix.concerns == "outside":
        turn, waits_not = evidence.outside, finding.id == "keras_fit_per_batch"
        left = turn.steps * times.resident if waits_not else turn.training_s
        limits["the training steps"] = turn.seconds / left
    elif fix.between_epochs or finding.slices != "steps" or fix.concerns == "own work":
        pass
    elif finding.category in ("input", "storage"):
        limits["free data"] = times.real / times.resident if is_taken(times.resident_) else None
    elif finding.category in ("model", "host", "sync"):
        limits["the input"] = times.real / times.input if is_taken(times.input_) else None
    for what, most in limits.items():
        if most is None:
            assert what != "its favourable end"
        elif bound > 1.001 * max(most, 1.0):
            yield f"{finding.id}: {bound}, {what} allows {most}"


def test_every_script_has_its_files_and_no_file_is_of_none() -> None:
    for folder, ending in ((zoo.RECORDINGS, ".json.xz"), (oracle.ANSWERS, ".json")):
        names = {path.name.removesuffix(ending) for path in folder.iterdir()}
        assert names == set(zoo.SCRIPTS)


def test_every_model_and_optimizer_of_a_step_is_read() -> None:
    torch = zoo.load("torch_loop_gan").evidence.torch
    assert {model.name for model in torch.models} == {"judge", "maker"}
    assert len({optimizer.step_where for optimizer in torch.optimizers}) == 2


def test_every_example_is_in_the_zoo_and_told_of() -> None:
    examples = zoo.REPOSITORY / "examples"
    scripts = {path.name for path in examples.glob("*.py")}
    recorded = {Path(one.path).name for one in zoo.SCRIPTS.values() if "examples" in one.path}
    assert scripts == recorded
    told = (examples / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(scripts) if f"## {name}" not in told] == []


@pytest.mark.parametrize("file", [*zoo.RECORDINGS.iterdir(), *zoo.DIAGNOSES.iterdir()])
def test_a_recording_is_small_and_names_no_folder_of_a_machine(file: Path) -> None:
    data = file.read_bytes()
    assert len(data) < 100 * KIB
    folders = set(re.findall(r'"(/[a-z]+)/[^"]*"', lzma.decompress(data).decode()))
    assert folders <= {"/python", "/tmp", "/home", "/dev", "/proc", "/sys"}


@pytest.mark.parametrize(
    ("kind", "real_s"), [("hidden", 0.150), ("transfer", 0.050), ("two", 0.060)]
)
def test_a_step_of_an_emulated_device_takes_what_was_given_it(kind: str, real_s: float) -> None:
    """Of a device that hides its loader, that waits for its copies, and of two at a time."""
    assert zoo.load(f"emulated_{kind}").evidence.times.real == pytest.approx(real_s, rel=0.05)
