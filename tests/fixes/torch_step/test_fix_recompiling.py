"""Whether ending compilations lasts, and what is bound by the time of operators."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fixes.case_text import evidence_of
from kit.torch_evidence import split, torch_evidence
from trainperf.errors import NotMeasured
from trainperf.fixes.torch_step.compiling.torch_compile import fusing
from trainperf.fixes.torch_step.compiling.torch_recompiling import StopRecompiling
from trainperf.model import Evidence, Operator, Trace

EAGER = Trace("cpu", 3, (Operator("aten::mul", 60, 0.06),), 0.01, 240, fusable_s=0.065)
PASSES = split(forward=0.040, backward=0.060)


def traced(trace: Trace) -> Evidence:
    return torch_evidence(torch={"trace": trace}, split=PASSES, resident=None, input=None)


def test_a_gain_lasts_only_where_pytorch_has_given_up_compiling() -> None:
    fix = StopRecompiling()
    for limit in (True, False):
        seen = {"function": "forward", "count": 8, "steps": 60, "seconds": 9.0, "limit": limit}
        seen |= {"lasting_s": 0.0 if limit else 0.0003}
        laid = f"torch.compiling.recompiling = {json.dumps(seen)}"
        found = fix.detect(evidence_of(f"torch_loop_compiled | {laid}"))
        assert found is not None
        assert fix.lasts(found) is limit


def test_without_a_trace_nobody_knows_what_compiling_saves() -> None:
    with pytest.raises(NotMeasured):
        fusing(torch_evidence())


def test_products_are_left_and_all_else_of_a_cpus_passes_could_go() -> None:
    trace = replace(EAGER, others_s=0.030, fusable_s=0.060)  # 0.09 s of operators
    assert fusing(traced(trace)).saved == pytest.approx(0.100 - 0.030)


def test_the_tracer_slows_what_is_left_as_well() -> None:
    trace = replace(EAGER, others_s=0.030, fusable_s=0.060, seconds=0.200)
    assert fusing(traced(trace)).saved == pytest.approx(0.100 - 0.015)
