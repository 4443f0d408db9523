"""The numbers of the advice to take another instance; what fires is in the cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes import boxes
from fixes.case_text import cases, evidence_of
from fixes.laid_over import lay
from trainperf.fixes import by_id
from trainperf.fixes.common.words import MB
from trainperf.fixes.findings import shown_findings
from trainperf.model import Evidence, Finding, Machine, Reads, Volume


def found(fix: str, case: Evidence) -> Finding:
    (finding,) = shown_findings(case, among=[by_id()[fix]])
    return finding


def cores(case: Evidence) -> Finding:
    return found("instance_cores", case)


def used(real: float, input: float) -> list[dict[str, Any]]:
    """The cores busy in the real phase, and with the input alone."""
    cores = {"real": real, "input": input}
    return [{"phase": name, "samples": 30, "cpu_cores": busy} for name, busy in cores.items()]


def busy(
    real: float = 4.0,
    input: float = 4.0,
    resident: float = 0.05,
    machine: Machine = boxes.G5_XLARGE,
) -> Evidence:
    """A step of 50 ms at best that waits 90 ms for four busy cores: it needs 11.2 of them."""
    case = evidence_of("slow_images | device = A10G; times.real = 0.14; times.input = 0.12")
    laid = {"times.resident": resident, "machine": machine, "use": used(real, input)}
    for path, value in laid.items():
        case = lay(case, path, value)
    return case


def reading(
    cold: float = 90.0, needed: float = 400.0, machine: Machine = boxes.G5_XLARGE
) -> Evidence:
    """A loop that waits for files on a volume of EBS; the rates in MB/s."""
    case = evidence_of("config_object | device = A10G")
    reads = Reads(Volume("/data", "ebs", "ext4"), 900, 900, 9.0, (100_000,) * 3, 99_000_000)
    reads = replace(reads, cold_bytes_s=cold * MB, needed_bytes_s=needed * MB)
    return replace(case, machine=machine, reads=(reads,))


def test_the_cores_needed_are_the_work_of_a_step_over_the_time_it_may_take() -> None:
    finding = cores(busy())
    assert finding.data["cores_needed"] == 11.2
    assert "takes 11" in finding.title
    assert "560 ms of CPU time" in finding.text
    assert "86 % of it for the input" in finding.text


def test_the_smallest_that_has_enough_is_advised() -> None:
    finding = cores(busy())
    assert "take g5.4xlarge" in finding.advice
    assert finding.bound == pytest.approx(2.8)  # 140 ms over 50 ms: no step gets shorter
    assert "g5.2xlarge 2.0×" in finding.text


def test_no_type_is_said_to_be_faster_than_its_cores_are_more() -> None:
    for offer in cores(busy(real=3.5, input=3.5)).data["offers"]:
        assert offer["speedup"] <= offer["vcpus"] / 4


def test_the_assumption_is_said() -> None:
    assert "assumes that the work spreads evenly over cores" in cores(busy()).text


def test_without_prices_none_is_made_up() -> None:
    finding = cores(busy())
    assert "at a price to be looked up" in finding.text
    assert {offer["price_ratio"] for offer in finding.data["offers"]} == {None}


def test_known_prices_are_set_beside_the_throughput() -> None:
    finding = cores(busy(machine=boxes.PRICED))
    assert "at most 2.8× the throughput, for 1.60× the price (on demand, eu-west-1)" in finding.text
    assert "costs more" not in finding.advice


def test_what_costs_more_than_it_gives_is_said_to() -> None:
    dear = (("g5.4xlarge", 3.5), ("g5.xlarge", 1.0))
    finding = cores(busy(machine=boxes.instance("g5.xlarge", prices=dear)))
    assert "An epoch is done sooner there, and costs more." in finding.advice


def test_only_larger_ones_are_offered() -> None:
    finding = cores(busy(32.0, 32.0, machine=boxes.G5_8XLARGE))
    assert [offer["name"] for offer in finding.data["offers"]] == ["g5.16xlarge"]
    assert "Sizes between" not in finding.text


def test_the_same_step_that_needs_fewer_cores_has_no_finding() -> None:
    assert not shown_findings(busy(resident=0.139), among=[by_id()["instance_cores"]])


@pytest.mark.parametrize("fix", ["instance_storage", "instance_network"])
def test_more_bandwidth_gives_no_more_than_the_waiting(fix: str) -> None:
    for case in (case.evidence for case in cases(fix) if case.kind == "yes"):
        bound = found(fix, case).bound
        assert bound is not None
        assert bound <= case.times.real / case.times.resident


def test_the_smallest_with_enough_ebs_bandwidth_is_advised() -> None:
    assert "Else take g5.4xlarge" in found("instance_storage", reading(needed=400.0)).advice
    assert "Else take g5.8xlarge" in found("instance_storage", reading(needed=700.0)).advice


def test_a_local_disk_is_the_first_advice() -> None:
    assert found("instance_storage", reading()).advice.startswith("Copy the data to the local NVMe")


def test_a_type_without_a_local_disk_is_not_advised_to_use_it() -> None:
    case = reading(140.0, 500.0, boxes.instance("g5g.xlarge"))
    assert found("instance_storage", case).advice.startswith("Take g5g.")


def test_a_burst_is_told_as_one() -> None:
    assert (
        "in a burst that ends" in found("instance_storage", reading(cold=430.0, needed=2200.0)).text
    )
    assert "burst" not in found("instance_storage", reading()).text


def test_more_memory_is_advised_from_the_peak_that_was_measured() -> None:
    lines = cases("instance_memory")
    finding = found("instance_memory", lines[-3].evidence)
    assert finding.bound == pytest.approx(1 / 0.7)
    assert "used 15.5 GiB at most, g5.xlarge has 16; g5.2xlarge has 32" in finding.text
    assert "1.20× the price" in finding.advice
    killed = found("instance_memory", lines[-1].evidence)
    assert killed.bound is None
    assert "ended 1 process" in killed.text
