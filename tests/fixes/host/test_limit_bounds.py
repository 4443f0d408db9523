"""Promises of the fixes of container limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.evidence import evidence, machine
from kit.torch_evidence import torch_evidence
from trainperf.fixes import by_id
from trainperf.model import ContainerUse, Evidence, Finding, PhaseUse


def found(name: str, case: Evidence) -> Finding:
    finding = by_id()[name].detect(case)
    assert finding is not None
    return finding


def test_a_quota_promises_no_more_than_the_cores_that_can_be_seen() -> None:
    use = ContainerUse(20.0, quota_cores=2.0, throttled_share=1.0)
    finding = found("cpu_quota", evidence(machine=machine(cores=8), container=use))
    assert finding.bound == pytest.approx(4.0)


def test_a_quota_counts_while_it_trains_and_not_while_it_starts() -> None:
    use = ContainerUse(20.0, quota_cores=2.0, throttled_share=1.0)
    training = (PhaseUse("real", 20, throttled_share=0.5),)
    finding = found("cpu_quota", evidence(machine=machine(cores=8), container=use, use=training))
    assert finding.bound == pytest.approx(1 / (1 - 0.5 * 0.75))
    assert "50 % of the quota's periods" in finding.text


def test_the_threads_that_pytorch_takes_are_named() -> None:
    use = ContainerUse(20.0, quota_cores=2.0, throttled_share=1.0)
    finding = found("cpu_quota", torch_evidence(machine=machine(cores=8), container=use))
    assert "PyTorch computes with 8 threads" in finding.text


def test_waiting_for_memory_promises_its_share_of_the_step() -> None:
    use = ContainerUse(20.0, memory_pressure=0.2, pressure_of="machine")
    finding = found("memory_pressure", evidence(container=use))
    assert finding.bound == pytest.approx(1.25)
    assert "a task of the machine" in finding.text


def test_threads_are_set_to_the_quota() -> None:
    box = replace(machine(cores=2), visible_cores=16, affinity_cores=16, quota_cores=2.5, cores=2.5)
    case = torch_evidence(machine=box, flags={"threads": 16})
    finding = found("omp_threads", case)
    assert by_id()["omp_threads"].environment(finding) == {"OMP_NUM_THREADS": "2"}
    tensorflow = evidence(machine=box, facts={"intra_op_threads": None})
    finding = found("omp_threads", tensorflow)
    assert by_id()["omp_threads"].environment(finding) == {"TF_NUM_INTRAOP_THREADS": "2"}


def test_threads_above_a_quota_promise_what_they_take_from_each_other() -> None:
    box = replace(machine(cores=2), quota_cores=0.5, cores=0.5)
    finding = found("omp_threads", torch_evidence(machine=box, flags={"threads": 2}, input=0.001))
    assert finding.bound == pytest.approx(4.0)
    assert finding.title == "2 threads share 0.5 cores"
    assert by_id()["omp_threads"].environment(finding) == {"OMP_NUM_THREADS": "1"}


def test_one_thread_of_tensorflow_is_the_other_fixs_matter() -> None:
    case = evidence(facts={"intra_op_threads": "1"})
    assert by_id()["omp_threads"].detect(case) is None
    assert by_id()["tf_intra_op_threads"].detect(case) is not None
