"""Objects that a script read from S3."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trainperf.evidence.events import NoLoop, Observed, choose
from trainperf.model import Event, Objects, Recording
from trainperf.run.event_files import training

LATE_S = 0.5
"""Sums are written some time after the request: those just behind the last block belong to it."""

SUMMED = ("requests", "seconds", "gets", "bytes", "body_s", "sized_bytes")


@dataclass
class _Sums:
    """What was counted of one bucket in the window, and what each process had of it last."""

    numbers: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    last: list[dict[str, Any]] = field(default_factory=list)


def seen(recording: Recording) -> tuple[Objects, ...]:
    """The buckets that the script read from; not yet probed.

    Requests are counted from the loop's start to the end of its last block, in all
    processes: workers fetch for the loop. Without a loop the whole run counts.
    """
    try:
        observed = choose(recording)
    except NoLoop:
        observed = None
    begin, end = recording.started, recording.ended
    if observed is not None:
        ends = [event["t"] for event in observed.loop if event["e"] in ("block", "step")]
        begin, end = observed.start["t"], max(ends, default=end)
    sums: defaultdict[str, _Sums] = defaultdict(_Sums)
    at_once: list[tuple[float, float, float]] = []
    for events in recording.events.values():
        counted = [event for event in events if event["e"] == "s3"]
        first = _last_until(counted, begin)
        last = _last_until(counted, end + LATE_S)
        if last is None:
            continue
        before = {bucket["bucket"]: bucket for bucket in first["buckets"]} if first else {}
        took = 0.0
        for bucket in last["buckets"]:
            earlier: dict[str, Any] = before.get(bucket["bucket"], {})
            found, errors = sums[bucket["bucket"]], earlier.get("errors", {})
            added = {name: bucket[name] - earlier.get(name, 0) for name in SUMMED}
            found.numbers.update(added)
            found.errors.update({n: c - errors.get(n, 0) for n, c in bucket["errors"].items()})
            found.last.append(bucket)
            took += added["seconds"] + added["body_s"]
        busy = last["busy"] - (first["busy"] if first else 0.0)
        if busy > 0 and took > 0:
            told = [begin] if first else [event["t"] for event in counted if event["t"] >= begin]
            since = max(begin, min(last["t"] - busy, *told))
            at_once.append((since, last["t"], max(1.0, took / busy)))
    concurrency = _concurrency(at_once)
    return tuple(
        _objects(name, one, end - begin, concurrency, _per_step(name, recording, observed))
        for name, one in sums.items()
    )


def _concurrency(processes: Sequence[tuple[float, float, float]]) -> float | None:
    """Requests under way at once, from the begin, the end and the own number of each process.

    Processes that follow one another, as the workers of one epoch those of another, do not
    add up. None without any.
    """
    covered, until = 0.0, float("-inf")
    for begin, end, _ in sorted(processes):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    if covered <= 0:
        return None
    return sum((end - begin) * many for begin, end, many in processes) / covered


def _last_until(events: Sequence[Event], at: float) -> Event | None:
    return next((event for event in reversed(events) if event["t"] <= at), None)


def _objects(
    name: str, sums: _Sums, seconds: float, concurrency: float | None, per_step: float | None
) -> Objects:
    numbers = sums.numbers
    requests, gets = int(numbers["requests"]), int(numbers["gets"])
    prefixes = [bucket["prefix"] for bucket in sums.last]
    common = os.path.commonprefix(prefixes)  # noqa: RUF071 - cut at "/" below
    endpoint = next((bucket["endpoint"] for bucket in sums.last if bucket["endpoint"]), "")
    public = "amazonaws.com" in endpoint and "vpce" not in endpoint  # boto3 finds it by itself
    return Objects(
        bucket=name,
        prefix=common[: common.rfind("/") + 1],
        requests=requests,
        request_s=numbers["seconds"] / requests if requests else None,
        bytes=int(numbers["bytes"]),
        mean_object_bytes=numbers["sized_bytes"] / gets if gets else None,
        errors=tuple(sorted((+sums.errors).items())),
        body_s=numbers["body_s"] / gets if gets else None,
        seconds=seconds if seconds > 0 else None,
        concurrency=concurrency if requests else None,
        requests_per_step=per_step,
        endpoint="" if public else endpoint,
    )


def _per_step(bucket: str, recording: Recording, observed: Observed | None) -> float | None:
    """Requests for one step of a rank, from the blocks of real steps; None without any.

    Other phases replay batches, or draw more than they count.
    """
    blocks = [block for block in observed.of("block") if block["p"] == "real"] if observed else []
    steps = sum(block["n"] for block in blocks) * (observed.steps_per_call if observed else 1)
    if not steps:
        return None
    requests = 0.0
    for events in recording.events.values():
        counted = [
            (event["t"], float(one["requests"]))
            for event in events
            if event["e"] == "s3"
            for one in event["buckets"]
            if one["bucket"] == bucket
        ]
        requests += sum(_at(block["t"], counted) - _at(block["s"], counted) for block in blocks)
    return requests / steps / max(1, len(training(recording.events))) or None


def _at(at: float, counted: Sequence[tuple[float, float]]) -> float:
    """Requests until `at`: between two counts, as many as its share of the time."""
    before, until = 0.0, None
    for time, requests in counted:
        if time >= at:
            share = 1.0 if until is None else (at - until) / max(time - until, 1e-9)
            return before + (requests - before) * share
        before, until = requests, time
    return before
