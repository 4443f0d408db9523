"""The report of a job of several ranks."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from reporters.rendering import of, text
from reporters.samples_observed import INPUT_BOUND
from reporters.samples_parallel import PARALLEL
from reporters.samples_tried import KEPT_MAP
from trainperf.model import Diagnosis, Ending, Outcome, Strategy, Verdict
from trainperf.model.parallel import GONE
from trainperf.model.reported_parallel import ReportedExchange, ReportedParallel, ReportedRank

SYNC, LATE = PARALLEL["ddp_sync_bound"], PARALLEL["straggler"]
RANKS, EXCHANGE = "Ranks", "Exchange of gradients"


def job(diagnosis: Diagnosis) -> ReportedParallel:
    assert diagnosis.parallel is not None
    return diagnosis.parallel


def changed(diagnosis: Diagnosis, **fields: Any) -> Diagnosis:
    return replace(diagnosis, parallel=replace(job(diagnosis), **fields))


def exchanging(**fields: Any) -> Diagnosis:
    found = job(SYNC).exchange
    assert isinstance(found, ReportedExchange)
    return changed(SYNC, exchange=replace(found, **fields))


def of_many(count: int) -> Diagnosis:
    first = job(SYNC).ranks[0]
    ranks = tuple(replace(first, rank=one, local_s=0.04 + one * 1e-5) for one in range(count))
    return changed(SYNC, expected=count, ranks=ranks)


def test_one_process_on_one_device_says_nothing_of_ranks() -> None:
    report = text(INPUT_BOUND)
    assert f"\n{RANKS}\n" not in report
    assert f"\n{EXCHANGE}\n" not in report


def test_absent_ranks_come_before_all_else() -> None:
    assert text(LATE).startswith("Rank 3 of 4 has left no record: ")
    more = text(changed(LATE, absent=(1, 3), ranks=job(LATE).ranks[:1]))
    assert more.startswith("Ranks 1 and 3 of 4 have left no record: ")
    assert "left no record" not in text(SYNC)


def test_many_absent_ranks_are_counted() -> None:
    report = text(changed(LATE, expected=1024, absent=tuple(range(4, 1024))))
    assert report.startswith("1,020 ranks (4, 5, 6, 7, 8, 9, 10, 11, …) of 1,024 have left no")


def test_a_rank_that_ended_early_is_named_with_what_happened() -> None:
    assert "Rank 2: failed in the input phase with ValueError: NaN.\n" in text(LATE)


def test_the_rank_that_failed_of_itself_comes_before_those_that_lost_it() -> None:
    first, *others = job(LATE).ranks
    lost = replace(first, ended=f"failed in the real phase, {GONE}, with RuntimeError: closed")
    report = text(changed(LATE, ranks=(lost, *others)))
    assert report.index("Rank 2: failed") < report.index("Rank 0: failed")


def test_where_a_rank_left_no_time_the_numbers_are_those_of_the_others() -> None:
    first, *_ = job(SYNC).ranks
    nothing = dict.fromkeys(("real_s", "resident_s", "local_s", "input_s", "waits_s"))
    cut = replace(first, rank=1, ended="record.json was cut short", **nothing)
    assert "cut short.\nThe numbers are those of the other ranks.\n" in text(
        changed(SYNC, ranks=(first, cut))
    )
    assert "those of the other ranks" not in text(SYNC)


def test_the_last_output_is_that_of_the_rank_that_failed_of_itself() -> None:
    tail = "[rank2]: ValueError: NaN\n[rank0]: RuntimeError: closed\ntorchrun: train.py FAILED"
    failed = replace(LATE, ending=Ending.FAILED, output_tail=tail)
    report = text(failed)
    assert "Last output of rank 2\n  [rank2]: ValueError: NaN\n" in report
    assert "torchrun: train.py FAILED" not in report
    other = replace(failed, output_tail="torchrun: train.py FAILED")
    assert "Last output of the script\n  torchrun: train.py FAILED\n" in text(other)


def test_ranks_of_which_nothing_is_known_but_their_end_have_no_table() -> None:
    fields = dict.fromkeys(field.name for field in dataclasses.fields(ReportedRank))
    fields |= {"rank": 0, "host": "", "device": "", "ended": "failed in the warm-up with OSError"}
    report = text(changed(LATE, ranks=(ReportedRank(**fields),)))
    assert f"\n{RANKS}\n" not in report
    assert "Rank 0: failed in the warm-up" in report


def test_each_rank_has_a_row_and_hosts_are_named_where_there_are_several() -> None:
    rows = of(LATE, RANKS)
    assert "1 node-a CPU 40.5 ms 38.2 ms 26.7 ms ≈ 0" in rows
    assert "host" not in of(SYNC, RANKS)


def test_up_to_eight_ranks_are_shown() -> None:
    rows = of(of_many(8), RANKS)
    assert "7 CPU" in rows
    assert "between them" not in rows


def test_of_many_ranks_the_quickest_the_median_and_the_slowest_are_shown() -> None:
    rows = of(of_many(1024), RANKS)
    for row in ("0 quickest CPU", "511 median CPU", "1020 CPU", "1023 slowest CPU"):
        assert row in rows
    assert "and 1,018 others between them" in rows
    assert len(text(of_many(1024))) < 1.2 * len(text(of_many(8)))


def test_of_many_ranks_one_that_was_not_timed_is_not_the_quickest() -> None:
    first, *others = job(of_many(20)).ranks
    times = dict.fromkeys(("real_s", "local_s", "input_s", "waits_s"))
    gone = replace(first, ended="failed with OSError", **times)
    report = changed(of_many(20), ranks=(gone, *others))
    rows = of(report, RANKS)
    assert "1 quickest CPU" in rows
    assert "and 13 others between them" in rows
    assert "Rank 0: failed with OSError." in text(report)


def test_many_stragglers_are_counted() -> None:
    (one,) = job(LATE).stragglers
    several = tuple(replace(one, rank=rank) for rank in range(7))
    assert "3 more ranks behind by over a tenth" in of(changed(LATE, stragglers=several), RANKS)


def test_the_exchange_has_its_cost_its_share_and_its_interval() -> None:
    assert "31.0 ms, 41 % of it (29.6 ms to 32.4 ms)" in of(SYNC, EXCHANGE)


def test_an_exchange_that_the_noise_hides_is_part_of_the_model_and_said_so() -> None:
    hidden = exchanging(low_s=0.0, high_s=0.050)
    assert "not known: between nothing and 50.0 ms, 66 % of it" in of(hidden, EXCHANGE)
    assert "█  model and exchange" in text(hidden)


def test_a_wait_for_ranks_that_were_not_measured_is_told_from_the_model() -> None:
    first, _ = job(SYNC).ranks
    times = replace(SYNC.times, resident_s=0.050, input_s=0.001)
    alone = replace(changed(SYNC, ranks=(first,), absent=(1,)), times=times)
    report = text(alone)
    assert "▞  waiting for ranks not measured  25.1 ms" in report
    assert "any wait for 1 rank not measured included" in of(alone, EXCHANGE)


def test_what_exchanges_less_often_is_said_where_the_exchange_dominates() -> None:
    assert "one update after several batches" in text(SYNC)
    often = tuple(replace(one, micro_steps=4.0) for one in job(SYNC).ddp)
    assert "one update after several batches" not in text(changed(SYNC, ddp=often))
    assert "exchange less often" not in text(LATE)
    assert "exchange less often" not in text(INPUT_BOUND)
    assert "exchange less often" not in text(exchanging(low_s=0.0))


def test_an_exchange_within_the_noise_is_said_to_be_so() -> None:
    told = of(exchanging(low_s=0.0, high_s=0.0021), EXCHANGE)
    assert "nothing that stands out of the noise: 2.10 ms at most" in told
    assert "▓" not in text(exchanging(low_s=0.0))


def test_the_all_reduce_stands_beside_what_the_link_can_give() -> None:
    told = of(SYNC, EXCHANGE)
    assert "658 MiB/s on the bus Link loopback can give 1.77 GiB/s (measured in this run)" in told


def test_what_was_not_measured_is_left_out_and_named_below() -> None:
    told = of(LATE, EXCHANGE)
    assert "All-reduce alone" not in told
    assert "Link" not in told
    assert "all-reduces by themselves: not all ranks came to it" in of(LATE, "Not measured")


def test_an_exchange_that_could_not_be_timed_has_no_cost() -> None:
    told = of(exchanging(seconds_per_step=None, share=None, waiting_s=None), EXCHANGE)
    assert "Costs a step" not in told
    assert "Waiting" not in told


def test_the_step_is_split_into_model_exchange_and_waiting() -> None:
    assert "▓  exchange of gradients  31.0 ms   41 %" in text(SYNC)
    assert "▞  waiting for rank 1     26.2 ms   65 %" in text(LATE)
    assert "not explained" not in text(LATE)


def test_waiting_for_a_rank_whose_step_is_late_is_part_of_the_resident_step() -> None:
    (one,) = job(LATE).stragglers
    slow = changed(LATE, stragglers=(replace(one, phase="step"),))
    times = replace(slow.times, resident_s=0.0395)
    report = text(replace(slow, times=times))
    assert "█  model                  10.9 ms   27 %" in report
    assert "▞  waiting for rank 1     26.3 ms   65 %" in report


def test_one_process_with_replicas_has_an_exchange_but_no_table_of_ranks() -> None:
    strategy = Strategy("MirroredStrategy", replicas=2)
    one = changed(SYNC, expected=1, ranks=job(SYNC).ranks[:1], ddp=(), strategy=strategy)
    report = text(one)
    assert f"\n{EXCHANGE}\n" in report
    assert f"\n{RANKS}\n" not in report
    assert "Waiting " not in report


def test_the_break_even_stands_beside_the_batch_as_it_is() -> None:
    assert "a batch of about 23 per replica" in of(SYNC, EXCHANGE)
    assert "it is 32 now" in of(SYNC, EXCHANGE)
    unknown = tuple(replace(one, batch_size=None) for one in job(SYNC).ranks)
    assert "now" not in of(changed(SYNC, ranks=unknown), EXCHANGE)


def test_scaling_has_a_row_for_each_number_of_devices() -> None:
    told = of(SYNC, "Devices, each with the same batch")
    assert "1 43.9 ms 729 samples/s 100 % 2 76.1 ms 841 samples/s 58 %" in told


@pytest.mark.parametrize("missing", ["local_s", "input_s", "real_s"])
def test_a_rank_of_which_a_time_is_missing_still_has_its_row(missing: str) -> None:
    first: ReportedRank = replace(job(SYNC).ranks[0], **{missing: None, "waits_s": None})
    assert "0 CPU" in of(changed(SYNC, ranks=(first, job(SYNC).ranks[1])), RANKS)


def test_advice_that_was_not_tried_is_not_called_worthless() -> None:
    found = SYNC.findings[0]
    none = replace(KEPT_MAP, fix=found.id, kept=False, outcome=Outcome.NO_EFFECT)
    advice = replace(found, id="parallel_not_worth", rewritable=False)
    tried = replace(SYNC, trials=(none,), stack=None)
    assert "No change is worth making" in text(tried)
    assert "The advice above was not tried." in text(replace(tried, findings=(found, advice)))


def test_a_job_of_which_a_rank_left_nothing_is_not_called_well_as_it_is() -> None:
    healthy = replace(
        changed(SYNC, absent=()),
        verdict=Verdict("none", "Healthy.", healthy=True),
        findings=(),
        trials=(),
        stack=None,
    )
    assert "knows nothing that would make it faster" in text(healthy)
    assert "makes good use" not in text(changed(healthy, absent=(3,), expected=4))
