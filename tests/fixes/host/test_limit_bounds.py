"""Promises of the fixes of container limits."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import shown_findings
from trainperf.model import Finding


def found(name: str, case: str) -> Finding:
    (finding,) = shown_findings(evidence_of(case), among=[by_id()[name]])
    return finding


QUOTA = 'container = {"seconds": 20.0, "quota_cores": 0.5, "throttled_share": 1.0}'
TRAINING = '[{"phase": "real", "samples": 20, "throttled_share": 0.5}]'


@pytest.mark.parametrize(
    ("case", "bound", "words"),
    [
        # no more than the two cores that can be seen
        (f"retracing | {QUOTA}; use = []", 4.0, "100 % of the quota's periods it"),
        # it counts while it trains and not while it starts
        (f"retracing | {QUOTA}; use = {TRAINING}", 1.6, "50 % of the quota's periods it"),
        (f"torch_healthy | {QUOTA}; use = []", 4.0, "2 cores can be seen"),
    ],
)
def test_a_quota_promises_what_its_stops_took(case: str, bound: float, words: str) -> None:
    finding = found("cpu_quota", case)
    assert finding.bound == pytest.approx(bound)
    assert words in finding.text


@pytest.mark.parametrize(
    ("case", "given"),
    [
        ("torch_healthy | torch.flags.threads = 16", {"OMP_NUM_THREADS": "2"}),
        ("retracing | machine.affinity_cores = 16", {"TF_NUM_INTRAOP_THREADS": "2"}),
    ],
)
def test_threads_are_set_to_the_whole_cores_of_a_quota(case: str, given: dict[str, str]) -> None:
    finding = found("omp_threads", f"{case}; machine.cores = 2.5")
    assert by_id()["omp_threads"].environment(finding) == given


def test_threads_above_a_quota_promise_what_they_take_from_each_other() -> None:
    finding = found("omp_threads", "torch_healthy | torch.flags.threads = 2; machine.cores = 0.5")
    assert finding.bound == pytest.approx(4.0)
    assert finding.title == "2 threads share 0.5 cores"
    assert by_id()["omp_threads"].environment(finding) == {"OMP_NUM_THREADS": "1"}


def test_threads_without_a_core_may_cost_nearly_all_of_their_operations() -> None:
    finding = found("torch_set_threads", "crowded_threads")
    assert finding.bound == pytest.approx(4.0)
    assert (finding.most or 0.0) > 6.4  # as much faster it was with two threads, not eight


@pytest.mark.parametrize(("cores", "offered"), [(2, [1]), (8, [6, 1])])
def test_beside_workers_threads_are_those_that_have_a_core(cores: int, offered: list[int]) -> None:
    case = f"threads_beside_workers | machine.cores = {cores}; torch.flags.threads = {cores}"
    finding = found("omp_threads", case)
    assert [variant.data["threads"] for variant in finding.variants] == offered
    assert (
        finding.title == f"{cores} threads of operations and 2 loader workers share {cores} cores"
    )
    times = evidence_of(case).times
    assert finding.bound == pytest.approx(times.real / max(times.resident, times.input))
