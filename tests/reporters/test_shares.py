"""The bar of a step says nothing that its verdict does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reporters.samples import SAMPLES
from trainperf.model import Diagnosis, Equivalence, Finding, Site, Verdict
from trainperf.report.sections.shares import shares
from trainperf.verdict import exceeded

TORCH = SAMPLES["torch_observed"]


def timed(
    verdict: Verdict, real: float, resident: float, input: float | None, **fields: Any
) -> Any:
    times = replace(TORCH.times, real_s=real, resident_s=resident, input_s=input, host_s=None)
    return replace(TORCH, verdict=verdict, times=times, **fields)


def named(diagnosis: Diagnosis) -> dict[str, float]:
    return {name: seconds for name, seconds, _ in shares(diagnosis)}


def test_what_is_not_explained_is_not_called_waiting_for_data() -> None:
    probably = Verdict("model", "Probably model-bound", 0.8, grade="probable")
    found = named(timed(probably, 0.1, 0.08, 0.03))
    assert "waiting for data" not in found
    assert found["not explained"] == pytest.approx(0.02)
    blamed = named(timed(replace(probably, bottleneck="input"), 0.1, 0.08, 0.03))
    assert blamed["waiting for data"] == pytest.approx(0.02)


def test_an_input_that_is_quick_alone_is_not_what_takes_the_rest() -> None:
    host = Verdict("host", "Host-bound", 0.88)
    found = named(timed(host, 0.0156, 0.0138, 0.000136))
    assert found["waiting for data"] == pytest.approx(0.000136)
    assert found["not explained"] > 0.001


def test_the_users_own_function_is_a_part_of_its_own() -> None:
    own = Finding(
        "own_function",
        "host",
        "`Adam.step` updates tensors one by one in Python",
        "text",
        1.9,
        "basis",
        Equivalence.NUMERICS,
        (Site("optim.py", 25, "Adam.step"),),
        data={"kind": "optimizer", "share": 0.5, "name": "`Adam.step`"},
    )
    verdict = Verdict("host", "Host-bound", 0.99)
    found = named(timed(verdict, 0.02, 0.0198, 0.0001, findings=(own,)))
    assert found["your own `Adam.step`"] == pytest.approx(0.01)
    assert found["model"] == pytest.approx(0.0098)
    assert sum(found.values()) == pytest.approx(0.02)
    paused = named(timed(verdict, 0.1, 0.0198, 0.0001, findings=(own,)))
    assert paused["your own `Adam.step`"] == pytest.approx(0.01, rel=0.02)
    of_the_model = replace(own, data={**own.data, "kind": "recurrence"})
    assert "model" in named(timed(verdict, 0.02, 0.0198, 0.0001, findings=(of_the_model,)))
    assert len(named(timed(verdict, 0.02, 0.0198, 0.0001, findings=(of_the_model,)))) == 2


@pytest.mark.parametrize("name", SAMPLES)
def test_the_parts_of_the_bar_add_up_to_the_step(name: str) -> None:
    diagnosis = SAMPLES[name]
    parts = shares(diagnosis)
    assert not parts or sum(part[1] for part in parts) == pytest.approx(diagnosis.times.real_s)


EXCEEDED = ("tried",)
"""Samples made to show a fix that gave more than was predicted at most."""


@pytest.mark.parametrize("name", SAMPLES)
def test_no_sample_measured_more_than_its_bound(name: str) -> None:
    diagnosis = SAMPLES[name]
    assert bool(list(exceeded(diagnosis.findings, diagnosis.trials))) == (name in EXCEEDED)
