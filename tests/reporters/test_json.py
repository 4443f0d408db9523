"""The JSON report keeps to its schema, and the schema and its page to the model."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import types
import typing
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reporters.samples import INPUT_BOUND, NASTY, TORCH, TRIED, first
from trainperf import model, store
from trainperf.model.encoding import keys
from trainperf.reporters.json import render
from trainperf.reporters.json.schema import schema

SCHEMA: dict[str, Any] = schema()
PAGE = Path(__file__).parents[2] / "docs" / "report-format.md"


def valid(report: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(report))


def written() -> dict[str, Any]:
    """The report of an ordinary diagnosis, to be spoilt."""
    return typing.cast("dict[str, Any]", json.loads(render(INPUT_BOUND)))


def reached(cls: Any, seen: dict[str, Any]) -> dict[str, Any]:
    """Every dataclass of the model that a diagnosis can hold, by name."""
    if dataclasses.is_dataclass(cls) and isinstance(cls, type) and cls.__name__ not in seen:
        seen[cls.__name__] = cls
        for hint in typing.get_type_hints(
            cls, vars(sys.modules[cls.__module__]) | vars(types)
        ).values():
            reached(hint, seen)
    for inner in typing.get_args(cls):
        reached(inner, seen)
    return seen


CLASSES = reached(model.Diagnosis, {})
OWN = {
    name
    for name, hint in typing.get_type_hints(model.Diagnosis).items()
    if hint is not model.Evidence
    for name in reached(hint, {})
}
OF_EVIDENCE = (
    CLASSES.keys() - OWN - {"Diagnosis", "Evidence", "Times", "Measure", "Missing", "Loop"}
)
"""What the schema alone tells of."""


def fields(cls: Any) -> list[str]:
    return list(keys(cls))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", CLASSES)
def test_the_schema_has_the_fields_of_the_model_and_wants_them_all(name: str) -> None:
    part = SCHEMA if name == "Diagnosis" else SCHEMA["$defs"][name]
    assert list(part["properties"]) == fields(CLASSES[name])
    assert part["required"] == fields(CLASSES[name])
    assert part["additionalProperties"] is False


@pytest.mark.parametrize("name", CLASSES)
def test_the_page_tells_of_every_key(name: str) -> None:
    sections = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    section = [part for part in sections if re.match(rf".*\b{name}\b.*\n", part)]
    if name not in OF_EVIDENCE:
        told = re.findall(r"^\| `(\w+)` \|", section[0], flags=re.MULTILINE)
        assert told == fields(CLASSES[name])
    else:
        assert section == []


def test_mistakes_are_caught() -> None:
    for key, value in [
        ("format_version", 1),
        ("seconds", None),
        ("seconds", -1),
        ("ending", "exploded"),
        ("evidence", {"framework": {"name": "jax", "version": "1"}}),
        ("findings", [{"id": "x"}]),
        ("verdict", {"bottleneck": "input", "text": "x", "utilization": 31.3, "healthy": False}),
        ("surprise", 1),
    ]:
        assert not valid(written() | {key: value}), key
    for key in written():
        assert not valid({name: value for name, value in written().items() if name != key}), key


@pytest.mark.parametrize(
    ("key", "mistakes"),
    [
        ("stack", {"speedup": 0, "before_step_s": -1, "pairs": -1}),
        ("control", {"floor": -0.1, "loss_band": -1, "low": None}),
        ("trying", {"mode": "at once", "seconds": -1, "budget_needed_s": "3min"}),
        ("patch", {"environment": {"NAME": 1}, "files": ["train.py"]}),
    ],
)
def test_mistakes_in_what_the_trials_wrote_are_caught(key: str, mistakes: dict[str, Any]) -> None:
    report = json.loads(render(TRIED))
    assert valid(report)
    for name, value in mistakes.items():
        assert not valid(report | {key: report[key] | {name: value}}), name
    trial = report["trials"][0]
    for name, value in (("outcome", "won"), ("break_even_steps", -1), ("one_off_s", -1.0)):
        assert not valid(report | {"trials": [trial | {name: value}]}), name


def test_the_saved_run_has_every_key_of_what_was_read_from_events(tmp_path: Path) -> None:
    store.save(first("generator"), file := tmp_path / "saved.json")
    assert json.loads(file.read_bytes()) == json.loads(render(first("generator")))
    store.save(odd := replace(INPUT_BOUND, script=NASTY), file)
    assert json.loads(file.read_bytes()) == json.loads(render(odd))


def test_a_number_that_is_not_finite_is_null() -> None:
    report = json.loads(render(replace(INPUT_BOUND, seconds=float("nan"))))
    assert report["seconds"] is None


def test_a_file_name_that_is_no_text_can_be_written() -> None:
    report = json.loads(render(replace(INPUT_BOUND, script=NASTY)))
    assert report["script"] == NASTY.replace("\udce9", r"\udce9")


def test_the_parts_of_a_step_are_there_with_their_shares() -> None:
    report = json.loads(render(TORCH))
    evidence = report["evidence"]
    assert evidence["framework"]["name"] == "torch"
    assert "input" in {part["name"] for part in evidence["torch"]["split"]}
    assert evidence["torch"]["trace"]["operators"][0]["seconds"] > 0
    (wait,) = evidence["torch"]["syncs"]
    assert wait["where"]["line"] == 75
