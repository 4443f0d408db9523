"""A part of a record that cannot be read costs that part of the report, and no more."""

from __future__ import annotations

import functools
import inspect
import io
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

import zoo
from trainperf import evidence
from trainperf.diagnose import Request
from trainperf.diagnose.judging import first_verdict
from trainperf.evidence.events import NoLoop
from trainperf.model import Diagnosis, Machine, Recording
from trainperf.report.assemble import diagnosis as assembly
from trainperf.report.assemble.diagnosis import without_loop
from trainperf.reporters import json, terminal

UNREAD = "could not be read"
BROKEN = f"{UNREAD}: KeyError: 'broken'"


@pytest.fixture(scope="module")
def recorded() -> zoo.Recorded:
    return zoo.load("torch_healthy")


@pytest.fixture(scope="module")
def recording(recorded: zoo.Recorded) -> Recording:
    return recorded.recording


@pytest.fixture(scope="module")
def machine(recorded: zoo.Recorded) -> Machine:
    return recorded.machine


def report(recording: Recording, machine: Machine) -> Diagnosis:
    """The report of a recording, which every reporter can print."""
    try:
        found = evidence.read(recording, machine)
    except NoLoop as error:
        made = without_loop(recording, machine, error, 0.0)
    else:
        made = first_verdict(Request(recording.run, Path("/nowhere")), recording, found)
    assert made.verdict.text
    assert json.render(made)
    terminal.render(made, Console(file=io.StringIO()), full=True)
    return made


def unread(made: Diagnosis) -> list[str]:
    return [text for text in (made.verdict.text, *made.notes) if UNREAD in text]


def readers(module: ModuleType) -> list[Any]:
    """What a module takes from others of ours to read a record with."""
    return [
        pytest.param(module, name, id=f"{module.__name__.rpartition('.')[2]}.{name}")
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__.startswith("trainperf.")
        and value.__module__ != module.__name__
    ]


@pytest.mark.parametrize(("module", "name"), [*readers(evidence), *readers(assembly)])
def test_a_reader_that_fails_costs_its_part(
    module: ModuleType,
    name: str,
    recording: Recording,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    reader = vars(module)[name]

    @functools.wraps(reader)
    def failing(*_: object, **__: object) -> None:
        calls.append(name)
        raise KeyError("broken")

    monkeypatch.setattr(module, name, failing)
    notes = unread(report(recording, machine))
    assert len(notes) == len(calls)
    assert all(BROKEN in text for text in notes)


def test_an_event_that_lost_all_that_it_told_costs_what_it_told(
    recording: Recording, machine: Machine
) -> None:
    kinds = {event["e"] for events in recording.events.values() for event in events}
    named = set()
    for kind in kinds:
        events = {
            pid: tuple(
                {"e": kind, "t": event["t"]} if event["e"] == kind else event for event in own
            )
            for pid, own in recording.events.items()
        }
        named |= set(unread(report(replace(recording, events=events), machine)))
    assert len(named) > 5
