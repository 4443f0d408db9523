"""The numbers of the advice to take another instance; what fires is in the cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixes import boxes
from fixes.case_text import evidence_of
from fixes.laid_over import lay
from trainperf.fixes import by_id
from trainperf.fixes.findings import shown_findings
from trainperf.model import Evidence, Finding, Machine


def found(fix: str, case: Evidence) -> Finding:
    (finding,) = shown_findings(case, among=[by_id()[fix]])
    return finding


def busy(machine: Machine = boxes.G5_XLARGE, resident: float = 0.05) -> Evidence:
    """A step of 50 ms at best that waits 90 ms for four busy cores: it needs 11.2 of them."""
    case = evidence_of("slow_images | device = A10G; times.real = 0.14; times.input = 0.12")
    case = replace(case, machine=machine, use=boxes.FOUR_BUSY)
    return lay(case, "times.resident", resident)


def test_the_smallest_that_has_the_cores_for_the_work_of_a_step_is_advised() -> None:
    finding = found("instance_cores", busy())
    assert "takes 11" in finding.title
    assert "560 ms of CPU time" in finding.text
    assert "86 % of it for the input" in finding.text
    assert "take g5.4xlarge" in finding.advice
    assert finding.bound == pytest.approx(2.8)  # 140 ms over 50 ms: no step gets shorter
    assert not shown_findings(busy(resident=0.139), among=[by_id()["instance_cores"]])
