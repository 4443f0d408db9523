"""What a process traced is read; what it did not is said with its reason."""

from __future__ import annotations

from typing import Any

from recordings import FIT, observed
from trainperf.evidence.torch import UNTRACED, torch
from trainperf.model import Operator, Torch

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
