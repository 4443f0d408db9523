"""The numbers of the advice to take another instance; what fires is in the cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixes import boxes
from fixes.case_text import cases, evidence_of
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


def reading(
    needed: float = 400.0, cold: float = 90.0, machine: Machine = boxes.G5_XLARGE
) -> Evidence:
    """A loop that waits for files on a volume of EBS, and needs so many MB/s of them."""
    reads = boxes.read_from("ebs", cold, needed)
    return replace(evidence_of("config_object | device = A10G"), machine=machine, reads=reads)


def test_the_smallest_that_has_the_cores_for_the_work_of_a_step_is_advised() -> None:
    finding = found("instance_cores", busy())
    assert "takes 11" in finding.title
    assert "560 ms of CPU time" in finding.text
    assert "86 % of it for the input" in finding.text
    assert "take g5.4xlarge" in finding.advice
    assert finding.bound == pytest.approx(2.8)  # 140 ms over 50 ms: no step gets shorter
    assert "at a price to be looked up" in finding.text
    assert not shown_findings(busy(resident=0.139), among=[by_id()["instance_cores"]])


def test_known_prices_are_set_beside_the_throughput() -> None:
    finding = found("instance_cores", busy(boxes.PRICED))
    assert "at most 2.8× the throughput, for 1.60× the price (on demand, eu-west-1)" in finding.text


@pytest.mark.parametrize("fix", ["instance_storage", "instance_network"])
def test_more_bandwidth_gives_no_more_than_the_waiting(fix: str) -> None:
    for case in (case.evidence for case in cases(fix) if case.kind == "yes"):
        bound = found(fix, case).bound
        assert bound is not None
        assert bound <= case.times.real / case.times.resident


def test_the_smallest_with_enough_ebs_bandwidth_is_advised_after_a_local_disk() -> None:
    assert "Else take g5.4xlarge" in found("instance_storage", reading()).advice
    advice = found("instance_storage", reading(needed=700.0)).advice
    assert advice.startswith("Copy the data to the local NVMe")
    assert "Else take g5.8xlarge" in advice
    case = reading(500.0, 140.0, boxes.instance("g5g.xlarge"))
    assert found("instance_storage", case).advice.startswith("Take g5g.")


def test_more_memory_is_advised_from_the_peak_that_was_measured() -> None:
    lines = cases("instance_memory")
    finding = found("instance_memory", lines[-3].evidence)
    assert finding.bound == pytest.approx(1 / 0.7)
    assert "used 15.5 GiB at most, g5.xlarge has 16; g5.2xlarge has 32" in finding.text
    assert "1.20× the price" in finding.advice
    killed = found("instance_memory", lines[-1].evidence)
    assert killed.bound is None
    assert "ended 1 process" in killed.text
