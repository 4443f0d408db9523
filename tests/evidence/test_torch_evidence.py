"""Traces of a process are read; those it did not make are said with the reason."""

from __future__ import annotations

from typing import Any

from recordings import FIT, observed
from trainperf.evidence.torch import UNTRACED, adding_up, torch
from trainperf.model import Measure, Missing, Operator, Site, StepPart, Torch

IMPORT = {"e": "import", "name": "torch", "version": "2.13.0"}
LOOP = {**FIT, "kind": "iterator", "framework": "torch"}
TRACE: dict[str, Any] = {
    "e": "torch_trace",
    "device": "cuda",
    "passes": 3,
    "seconds": 0.02,
    "operators": [{"name": "aten::mm", "calls": 35, "seconds": 0.01}],
    "others_s": 0.002,
    "kernels": 702.0,
    "gap_s": 0.001,
    "tensor_core_s": None,
}


def read(*events: dict[str, Any]) -> Torch:
    found = torch(observed(IMPORT, LOOP, *events))
    assert found is not None
    return found


def test_a_run_that_ended_early_says_that_nothing_was_traced():
    found = read()
    assert found.trace is None
    assert found.untraced == UNTRACED


def test_why_there_is_no_trace_is_said_in_the_words_of_the_process():
    missing = {"e": "missing", "what": "the operators of a step", "reason": "CUPTI is missing"}
    assert read(missing).untraced == "CUPTI is missing"
    assert read(missing).trace is None


def test_a_trace_is_read_with_what_is_not_known():
    found = read(TRACE)
    assert found.untraced == ""
    assert found.trace is not None
    assert found.trace.operators == (Operator("aten::mm", 35, 0.01),)
    assert (found.trace.device, found.trace.kernels, found.trace.gap_s) == ("cuda", 702, 0.001)
    assert found.trace.tensor_core_s is None


def test_of_several_traces_the_last_counts():
    found = read(TRACE, {**TRACE, "passes": 1})
    assert found.trace is not None
    assert found.trace.passes == 1


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


def test_what_timing_many_calls_costs_is_allowed_for():
    assert isinstance(split_of(0.003, 0.002).split_, Missing)
    assert not isinstance(split_of(0.003, 0.002, calls=40.0).split_, Missing)


def test_the_parts_on_a_gpu_may_overlap_in_a_real_step():
    assert not isinstance(split_of(0.016, 0.010, gpu=True).split_, Missing)


def test_of_several_profiles_the_one_counts_that_disturbed_the_step_least():
    def taken(at: float, seconds: float, calls: float) -> list[dict[str, Any]]:
        where = {"file": "train.py", "line": 3}
        return [
            {**SPLIT, "t": at, "parts": {"forward": [seconds, 1]}},
            {
                "e": "torch_sync",
                "t": at + 0.1,
                "what": "item",
                "where": where,
                "calls": calls,
                "seconds": 0.001,
                "printed": False,
            },
        ]

    for first, second in (((0.06, 3), (0.007, 2)), ((0.007, 2), (0.06, 3))):
        events = [*taken(10.0, *first), *taken(20.0, *second)]
        found = torch(observed(IMPORT, LOOP, *events), Measure(0.0068, 30, (0.0068,)))
        assert found is not None
        assert not isinstance(found.split_, Missing)
        assert [one.seconds for one in found.split_] == [0.007]
        assert [one.calls for one in found.syncs] == [2]


TRAINER: dict[str, Any] = {
    "e": "torch_trainer",
    "library": "transformers",
    "cls": "TrainingArguments",
    "where": {"file": "/w/train.py", "line": 3, "function": "main", "end_line": 3, "col": None},
    "made": "command",
    "source": "--",
    "settings": {"bf16": False, "optim": "adamw_torch", "dataloader_prefetch_factor": None},
    "defaults": {"bf16": False},
}


def test_a_script_with_a_loop_of_its_own_has_no_trainer():
    assert read().trainer is None


def test_the_settings_of_a_trainer_are_read_as_they_were():
    trainer = read(TRAINER).trainer
    assert trainer is not None
    assert trainer.settings == TRAINER["settings"]
    assert trainer.where == Site("/w/train.py", 3, "main", end_line=3)
    assert trainer.made == "command"


def test_parts_that_do_not_add_up_to_a_plain_step_are_left_out() -> None:
    parts = (StepPart("forward", 3.0, 1), StepPart("backward", 2.12, 1))
    for step in (1.68, 8.0):
        left_out = adding_up(parts, Measure(step, 40, (step,) * 8, 0.98 * step, 1.02 * step))
        assert isinstance(left_out, Missing)
        assert left_out.reason.startswith("the steps that were taken apart took 5.12 s each")
    assert adding_up(parts, Measure(4.9, 40, (4.9,) * 8, 4.8, 5.0)) == parts
