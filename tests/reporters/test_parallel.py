"""The report of a job of several ranks: one that waits for rank 1, one that exchanges a lot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reporters.rendering import of, text
from reporters.samples import INPUT_BOUND, LATE, SYNC, over, timed
from trainperf.model import (
    Diagnosis,
    Ending,
    Measure,
    Parallel,
    Rank,
    Strategy,
    Verdict,
)
from trainperf.model.parallel import NO_STEP

RANKS, EXCHANGE = "Ranks", "Exchange of gradients"


def job(diagnosis: Diagnosis) -> Parallel:
    assert diagnosis.evidence.parallel_ is not None
    return diagnosis.evidence.parallel_


def changed(diagnosis: Diagnosis, **fields: Any) -> Diagnosis:
    return over(diagnosis, parallel_=replace(job(diagnosis), **fields))


def exchanging(**fields: Any) -> Diagnosis:
    exchange = job(SYNC).exchange
    assert exchange is not None
    return changed(SYNC, exchange=replace(exchange, **fields))


def costing(low: float, high: float) -> Diagnosis:
    """The exchange with that interval of what it costs a step."""
    exchange = job(SYNC).exchange
    assert exchange is not None
    assert isinstance(exchange.seconds_, Measure)
    return exchanging(seconds_=replace(exchange.seconds_, low=low, high=high))


def of_many(count: int) -> Diagnosis:
    first = job(SYNC).processes[0]
    own = (Measure(0.04 + rank * 1e-5, 100, ()) for rank in range(count))
    ranks = tuple(replace(first, rank=rank, local=local) for rank, local in enumerate(own))
    return changed(SYNC, expected=count, processes=ranks)


def dead(rank: Rank, ended: str) -> Rank:
    return Rank(rank.rank, "", None, ended, "failed")


def test_one_process_on_one_device_says_nothing_of_ranks() -> None:
    for heading in (RANKS, EXCHANGE):
        assert f"\n{heading}\n" not in text(INPUT_BOUND)


def test_absent_ranks_come_before_all_else() -> None:
    one = changed(LATE, absent=(3,), expected=4)
    assert text(one).startswith("Rank 3 of 4 has left no record: ")
    two = changed(LATE, absent=(1, 3), expected=4)
    assert text(two).startswith("Ranks 1 and 3 of 4 have left no record: ")
    many = changed(LATE, expected=1024, absent=tuple(range(4, 1024)))
    assert text(many).startswith("Ranks 4 to 1023 of 1,024 have left no")
    assert "left no record" not in text(SYNC)


def test_the_rank_that_failed_of_itself_comes_before_those_that_lost_it() -> None:
    first, second = job(LATE).processes
    failed = replace(second, ended="failed with ValueError: NaN", ending="failed")
    lost = replace(first, ended="failed when its connection broke", ending="lost another")
    both = changed(LATE, processes=(lost, failed))
    report = text(both)
    assert 0 <= report.index("Rank 1: failed") < report.index("Rank 0: failed")
    tail = "[rank1]: ValueError: NaN\n[rank0]: RuntimeError: closed\ntorchrun: train.py FAILED"
    ended = replace(both, ending=Ending.FAILED, output_tail=tail)
    assert "Last output of the script\n  [rank1]: ValueError: NaN\n" in text(ended)
    assert "train.py FAILED" not in text(ended)
    other = replace(ended, output_tail="torchrun: train.py FAILED")
    assert "Last output of the script\n  torchrun: train.py FAILED\n" in text(other)


def test_hosts_are_named_where_there_are_several() -> None:
    first, second = job(LATE).processes
    hosts = changed(LATE, processes=(first, replace(second, host="node-b")), hosts=2)
    assert "1 node-b CPU 21.6 ms" in of(hosts, RANKS)


@pytest.mark.parametrize("missing", ["local", "input_", "real"])
def test_a_rank_of_which_a_time_is_missing_still_has_its_row(missing: str) -> None:
    first, second = job(SYNC).processes
    partly = replace(first, **{missing: NO_STEP})  # type: ignore[arg-type]
    assert "0 CPU" in of(changed(SYNC, processes=(partly, second)), RANKS)


def test_of_many_ranks_the_quickest_the_median_and_the_slowest_are_shown() -> None:
    rows = of(of_many(1024), RANKS)
    for row in ("0 quickest CPU", "511 median CPU", "1020 CPU", "1023 slowest CPU"):
        assert row in rows
    assert len(text(of_many(1024))) < 1.2 * len(text(of_many(8)))
    first, *others = job(of_many(20)).processes
    report = changed(of_many(20), processes=(dead(first, "failed with OSError"), *others))
    assert "1 quickest CPU" in of(report, RANKS)  # not the one that was not timed


def test_the_step_is_split_into_model_exchange_and_waiting() -> None:
    (late,) = job(LATE).stragglers
    of_its_step = changed(LATE, stragglers=(replace(late, phase="step"),))
    assert "▞  waiting for rank 1" in text(timed(of_its_step, resident=0.020))
    alone = changed(SYNC, processes=job(SYNC).processes[:1], absent=(1,))
    assert "any wait for 1 rank not measured included" in of(alone, EXCHANGE)
    assert "waiting for ranks not measured" in text(timed(alone, resident=0.020))


def test_an_exchange_that_is_not_told_from_noise_has_no_cost() -> None:
    noisy = costing(0.0, 0.0021)
    assert "not told from noise: 2.10 ms at most" in of(noisy, EXCHANGE)
    assert "▓" not in text(noisy)


def test_what_exchanges_less_often_is_said_where_the_exchange_dominates() -> None:
    less = "gradient accumulation under"
    surely = costing(0.030, 0.038)
    surely = replace(surely, verdict=replace(SYNC.verdict, bottleneck="sync"))
    assert less in " ".join(text(surely).split())
    often = tuple(replace(one, micro_steps=4.0) for one in job(SYNC).ddp)
    assert less not in text(changed(surely, ddp=often))
    for other in (INPUT_BOUND, LATE, costing(0.0, 0.038)):
        assert "exchange less often" not in text(other)


def test_one_process_with_replicas_has_an_exchange_but_no_table_of_ranks() -> None:
    strategy = Strategy("MirroredStrategy", replicas=2)
    alone = changed(SYNC, expected=1, processes=job(SYNC).processes[:1], ddp=())
    alone = over(alone, strategy=strategy)
    assert f"\n{EXCHANGE}\n" in text(alone)
    assert f"\n{RANKS}\n" not in text(alone)


def test_a_job_of_which_a_rank_left_nothing_is_not_called_well_as_it_is() -> None:
    healthy = replace(SYNC, verdict=Verdict("none", "Healthy.", healthy=True), findings=())
    well = "knows nothing that would make it faster"
    assert well in text(healthy)
    assert well not in text(changed(healthy, absent=(3,), expected=4))
