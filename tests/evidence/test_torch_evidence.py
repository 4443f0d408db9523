"""Traces of a process are read; those it did not make are said with the reason."""

from __future__ import annotations

from typing import Any

from recordings import FIT, observed
from trainperf.evidence.torch import adding_up, torch
from trainperf.model import Measure, Missing, StepPart, Torch

IMPORT = {"e": "import", "name": "torch", "version": "2.13.0"}
LOOP = {**FIT, "kind": "iterator", "framework": "torch"}


def read(*events: dict[str, Any]) -> Torch:
    found = torch(observed(IMPORT, LOOP, *events))
    assert found is not None
    return found


SPLIT = {"e": "torch_split", "steps": 1}


def split_of(seconds: float, real: float, calls: float = 1.0, gpu: bool = False) -> Torch:
    event = {**SPLIT, "parts": {"forward": [seconds, calls]}}
    found = torch(observed(IMPORT, LOOP, event), Measure(real, 30, (real,)), gpu)
    assert found is not None
    return found


def test_parts_that_do_not_add_up_to_the_step_are_left_out_with_the_reason():
    slow = split_of(5.12, 1.68).split_
    assert isinstance(slow, Missing)
    assert "took 5.12 s each, where a step takes 1.68 s" in slow.reason
    assert isinstance(split_of(0.5, 1.68).split_, Missing)
    assert not isinstance(split_of(1.9, 1.68).split_, Missing)


def test_the_parts_on_a_gpu_may_overlap_in_a_real_step():
    assert not isinstance(split_of(0.016, 0.010, gpu=True).split_, Missing)


def test_a_script_with_a_loop_of_its_own_has_no_trainer():
    assert read().trainer is None


def test_parts_that_do_not_add_up_to_a_plain_step_are_left_out() -> None:
    parts = (StepPart("forward", 3.0, 1), StepPart("backward", 2.12, 1))
    for step in (1.68, 8.0):
        left_out = adding_up(parts, Measure(step, 40, (step,) * 8, 0.98 * step, 1.02 * step))
        assert isinstance(left_out, Missing)
        assert left_out.reason.startswith("the steps that were taken apart took 5.12 s each")
    assert adding_up(parts, Measure(4.9, 40, (4.9,) * 8, 4.8, 5.0)) == parts
