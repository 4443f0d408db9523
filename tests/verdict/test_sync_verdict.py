"""When a job is called sync-bound, and by what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes.case_text import evidence_of
from kit.evidence import measure
from kit.parallel_evidence import exchange, parallel_evidence, rank
from kit.torch_evidence import LOADER
from trainperf.evidence.skew import stragglers
from trainperf.fixes import detect_all
from trainperf.model import (
    AllReduce,
    Equivalence,
    Evidence,
    Finding,
    Measure,
    Missing,
    Rank,
    Verdict,
)
from trainperf.verdict import ranked, verdict


def said(**fields: Any) -> Verdict:
    return verdict(parallel_evidence(**fields), ())


def held_up(seconds: float, input: float = 0.010, **fields: Any) -> Evidence:
    """Two ranks with a step of 100 ms, of which rank 1 takes so long by itself."""
    ranks: tuple[Rank, ...] = (
        rank(0, local=measure(0.030)),
        rank(1, local=measure(seconds), input_=measure(input)),
    )
    parallel = {"processes": ranks, "stragglers": stragglers(ranks), **fields.pop("job", {})}
    return parallel_evidence(parallel=parallel, **fields)


# ------------------------------------------------------------------- what must stay silent


def test_an_exchange_of_less_than_a_tenth_is_not_what_it_is_bound_by() -> None:
    assert said(parallel={"exchange": exchange(0.009)}).bottleneck == "none"


def test_an_exchange_within_the_noise_is_nothing() -> None:
    unsure = replace(exchange(), seconds_=Measure(0.030, 30, (), low=0.0, high=0.08))
    assert said(parallel={"exchange": unsure}).bottleneck == "none"


def test_an_exchange_without_an_interval_is_nothing() -> None:
    unsure = replace(exchange(), seconds_=Measure(0.030, 30, ()))
    assert said(parallel={"exchange": unsure}).bottleneck == "none"


@pytest.mark.parametrize("found", [None, exchange(None)])
def test_an_exchange_that_was_not_timed_is_nothing(found: Any) -> None:
    assert said(parallel={"exchange": found}).bottleneck == "none"


def test_input_that_costs_all_ranks_more_than_the_exchange_stays_the_verdict() -> None:
    answer = said(parallel={"exchange": exchange(0.030)}, resident=0.050, input=0.055)
    assert answer.bottleneck == "input"


def test_an_input_late_on_all_ranks_is_no_straggler_because_one_is_a_little_later() -> None:
    evidence = held_up(0.045, input=0.060, resident=0.030)
    evidence = replace(evidence, times=replace(evidence.times, input_=measure(0.050)))
    assert verdict(evidence, ()).bottleneck == "input"


def test_a_straggler_that_costs_less_than_a_tenth_is_not_the_verdict() -> None:
    assert verdict(held_up(0.038), ()).bottleneck == "none"


def test_nothing_measured_is_no_sync() -> None:
    answer = said(real=None, resident=None, parallel={"exchange": exchange(0.04)})
    assert answer.text.startswith("Nothing was measured")


# --------------------------------------------------------------------------- what is said


def test_an_exchange_that_the_noise_hides_is_not_called_healthy() -> None:
    unsure = replace(exchange(), seconds_=Measure(0.030, 30, (), low=0.0, high=0.08))
    answer = said(parallel={"exchange": unsure})
    assert not answer.healthy
    assert "the exchange of gradients: it may take anything up to 80 % of a step" in answer.text


def test_a_healthy_step_says_what_the_exchange_may_be_of_it() -> None:
    small = replace(exchange(), seconds_=Measure(0.010, 30, (), low=0.0, high=0.02))
    answer = said(parallel={"exchange": small})
    assert answer.healthy
    assert "(the exchange of gradients is up to 20 %)" in answer.text
    none = replace(exchange(), seconds_=Measure(0.001, 30, (), low=0.0, high=0.002))
    assert "exchange" not in said(parallel={"exchange": none}).text


def test_an_exchange_with_ranks_that_were_not_measured_may_be_a_wait_for_them() -> None:
    known = (rank(0, local=measure(0.030)),)
    job = {"exchange": exchange(0.060), "processes": known, "absent": (1,), "expected": 2}
    answer = said(parallel=job)
    assert answer.text.endswith(
        ", or in waiting for rank 1 that left no step; each sends 100 MiB a step."
    )


def test_one_process_exchanges_between_replicas() -> None:
    case = evidence_of("mirrored_rnn | parallel.exchange.seconds = 0.02; times.real = 0.03")
    text = verdict(case, ()).text
    assert "gradients between 2 replicas (MirroredStrategy, CollectiveAllReduce (RING));" in text


def test_replicas_of_several_ranks_are_both_counted() -> None:
    slow = exchange(0.041, method="MultiWorkerMirroredStrategy", replicas=8)
    assert "between 8 replicas in 2 ranks (" in said(parallel={"exchange": slow}).text


def test_an_exchange_is_the_verdict_though_the_input_was_not_replayed() -> None:
    answer = said(parallel={"exchange": exchange(0.041)}, resident=None)
    assert answer.bottleneck == "sync"


def test_a_straggler_is_named_with_its_step_and_its_cause() -> None:
    answer = verdict(held_up(0.090, input=0.080), ())
    assert answer.bottleneck == "sync"
    assert answer.text == (
        "Sync-bound: 60 % of each step passes in waiting for rank 1, whose own step takes 90.0 "
        "ms, that of rank 0 30.0 ms: its input takes 80.0 ms a step, that of rank 0 10.0 ms."
    )


def test_a_straggler_by_its_input_is_the_verdict_though_the_step_waits_for_input() -> None:
    evidence = held_up(0.090, input=0.080, resident=0.030)
    assert evidence.input_bound
    assert "waiting for rank 1" in verdict(evidence, ()).text


def test_a_straggler_costs_no_more_than_the_step_has() -> None:
    evidence = held_up(0.120, input=0.110)  # its own work was longer in other steps
    (late,) = evidence.parallel.stragglers
    assert late.behind_s == pytest.approx(0.075)
    assert late.share == pytest.approx(0.75)
    assert "own step takes 120 ms, that of rank 0 30.0 ms" in verdict(evidence, ()).text


def test_a_straggler_without_a_cause_is_named_all_the_same() -> None:
    assert verdict(held_up(0.090), ()).text.endswith("takes 90.0 ms, that of rank 0 30.0 ms.")


def test_the_larger_of_exchange_and_straggler_is_the_verdict() -> None:
    behind = {"exchange": exchange(0.050)}
    assert "exchange of gradients" in verdict(held_up(0.070, job=behind), ()).text
    assert "waiting for rank 1" in verdict(held_up(0.090, job=behind), ()).text


def test_other_stragglers_are_counted() -> None:
    ranks = tuple(rank(number, local=measure(0.03 if number < 3 else 0.08)) for number in range(5))
    evidence = parallel_evidence(
        parallel={"processes": ranks, "expected": 5, "stragglers": stragglers(ranks)}
    )
    assert "waiting for rank 3 (and 1 more)" in verdict(evidence, ()).text


def test_a_straggler_seen_by_its_input_alone_says_so() -> None:
    ranks = tuple(
        rank(
            number,
            local=Missing("not switched off"),
            resident=measure(0.04),
            input_=measure(0.09 if number else 0.01),
        )
        for number in range(2)
    )
    evidence = parallel_evidence(
        parallel={"processes": ranks, "exchange": None, "stragglers": stragglers(ranks)},
        resident=0.04,
    )
    text = verdict(evidence, ()).text
    assert text == (
        "Sync-bound: 60 % of each step passes in waiting for rank 1: its input takes 90.0 ms a "
        "step, that of rank 0 10.0 ms."
    )


def test_a_gpu_that_is_not_used_comes_first_all_the_same() -> None:
    unused = Finding(
        "gpu_unused", "environment", "No GPU is used", "", None, "", Equivalence.ENVIRONMENT
    )
    slow = parallel_evidence(parallel={"exchange": exchange(0.041)})
    assert verdict(slow, (unused,)).bottleneck == "environment"


@pytest.mark.parametrize(("alone_s", "waits"), [(0.0006, True), (0.012, False)])
def test_an_exchange_that_is_short_alone_is_waiting_for_whoever_is_late(
    alone_s: float, waits: bool
) -> None:
    alone = AllReduce(bytes=170_000, seconds=alone_s, calls=((170_000, alone_s),), devices=2)
    answer = said(parallel={"exchange": replace(exchange(0.030), all_reduce=alone)})
    assert answer.bottleneck == "sync"
    assert ("waiting of" in answer.text) is waits
    assert ("600 µs alone" in answer.text) is waits


def test_ranks_that_each_go_through_all_of_the_data_are_no_healthy_job() -> None:
    loader = replace(LOADER, sampler="RandomSampler")
    case = parallel_evidence(loader=loader, facts={"ranks_same_data": True})
    found = [one for one in detect_all(case) if one.id == "torch_unsharded_data"]
    assert verdict(case, ()).healthy
    assert not verdict(case, ranked(found, case)).healthy
