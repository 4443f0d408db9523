"""Counts of S3 by processes, as requests of a loop."""

from __future__ import annotations

from typing import Any

import pytest

from recordings import FIT, block, recording
from trainperf.evidence.objects import seen
from trainperf.model import Event, Recording

BUCKET: dict[str, Any] = {
    "bucket": "data",
    "region": "eu-west-1",
    "endpoint": "https://s3.eu-west-1.amazonaws.com",
    "requests": 0,
    "seconds": 0.0,
    "gets": 0,
    "bytes": 0,
    "body_s": 0.0,
    "sized_bytes": 0,
    "prefix": "train/",
    "errors": {},
}


def sums(at: float, requests: int, busy: float, each: float = 0.02, **fields: Any) -> Event:
    """The sums at a time, after so many requests of 1000 bytes."""
    one = BUCKET | {
        "requests": requests,
        "seconds": requests * each,
        "gets": requests,
        "bytes": 1000 * requests,
        "sized_bytes": 1000 * requests,
    }
    return {"e": "s3", "t": at, "busy": busy, "more": 0, "buckets": [one | fields]}


def of(*processes: list[Event]) -> Recording:
    made = recording()
    events = {number: tuple(events) for number, events in enumerate(processes)}
    return type(made)(made.run, made.ending, 0, 0.0, 100.0, events)


LOOP = [
    FIT | {"t": 5.0},
    block("real", 10.0, 4) | {"s": 10.0, "t": 20.0},
    block("input", 60.0, 60) | {"s": 30.0, "t": 90.0},
    block("real", 20.0, 6, index=1) | {"s": 100.0, "t": 120.0},
]
"""Ten steps, in 30 seconds of 115."""


def test_requests_are_counted_from_the_loops_start_to_its_last_block():
    early, late = sums(4.0, 100, 2.0), sums(130.0, 900, 20.0)
    (one,) = seen(of([early, *LOOP, sums(119.0, 300, 6.0), late]))
    assert one.requests == 200
    assert one.request_s == 0.02
    assert one.concurrency == 1.0
    assert one.mean_object_bytes == 1000


def test_workers_count_for_the_loop_and_for_one_another():
    worker = [sums(10.0, 10, 0.1), sums(20.0, 20, 0.2), sums(100.0, 100, 2.0), sums(120.0, 140, 3)]
    (one,) = seen(of(LOOP, worker, worker))
    assert one.requests == 280
    assert one.requests_per_step == 2 * (10 + 40) / 10
    assert one.concurrency is not None
    assert one.concurrency >= 2.0


def test_workers_that_follow_one_another_are_not_at_once():
    """Each epoch has new ones: thirteen in a run, two at a time."""
    epochs = [(10.0, 30.0), (30.0, 60.0), (60.0, 115.0)]
    worker = [
        [sums(begin, 1, 0.02), sums((begin + end) / 2, 50, 1.0), sums(end, 100, 2.0)]
        for begin, end in epochs
    ]
    (one,) = seen(of(LOOP, *worker, *worker))
    assert one.concurrency == pytest.approx(2.0)


def test_two_ranks_take_their_own_batches():
    rank = [*LOOP, sums(10.0, 0, 0.1), sums(20.0, 40, 1.0), sums(100.0, 40, 1.0)]
    rank += [sums(120.0, 100, 2.0)]
    (one,) = seen(of(rank, rank))
    assert one.requests == 200
    assert one.requests_per_step == 10.0


def test_without_a_loop_the_run_counts_and_no_step():
    (one,) = seen(of([sums(10.0, 50, 1.0)]))
    assert one.requests == 50
    assert one.requests_per_step is None


def test_errors_and_prefixes_of_all_processes_are_joined():
    first = sums(90.0, 10, 1.0, errors={"SlowDown": 2}, prefix="train/a/")
    other = sums(90.0, 10, 1.0, errors={"SlowDown": 1})
    (one,) = seen(of([*LOOP, first], [other | {"t": 91.0}]))
    assert one.errors == (("SlowDown", 3),)
    assert one.prefix == "train/"
