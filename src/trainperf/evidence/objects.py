"""Objects that a script read from S3."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from trainperf.evidence.events import NoLoop, Observed, choose
from trainperf.model import Objects, Recording
from trainperf.run.event_files import training

LATE_S = 0.5
"""Sums are written some time after the request: those just behind the last block belong to it."""

SUMMED = ("requests", "seconds", "gets", "bytes", "body_s", "sized_bytes")

Busy = tuple[float, float, float]
"""From when until when a process read, and how many requests it had under way."""


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
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    errors: defaultdict[str, Counter[str]] = defaultdict(Counter)
    lasts: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    processes: list[Busy] = []
    for events in recording.events.values():
        counted = [event for event in events if event["e"] == "s3"]
        first = next((event for event in reversed(counted) if event["t"] <= begin), None)
        last = next((event for event in reversed(counted) if event["t"] <= end + LATE_S), None)
        if last is None:
            continue
        took, before = 0.0, {sums["bucket"]: sums for sums in (first or {"buckets": ()})["buckets"]}
        for bucket in last["buckets"]:
            name, earlier = bucket["bucket"], before.get(bucket["bucket"], {})
            added = {key: bucket[key] - earlier.get(key, 0) for key in SUMMED}
            counts[name].update(added)
            errors[name].update(bucket["errors"])
            errors[name].subtract(earlier.get("errors", {}))
            lasts[name].append(bucket)
            took += added["seconds"] + added["body_s"]
        busy = last["busy"] - (first["busy"] if first else 0.0)
        if busy > 0 and took > 0:
            told = [begin] if first else [event["t"] for event in counted if event["t"] >= begin]
            since = max(begin, min(last["t"] - busy, *told))
            processes.append((since, last["t"], max(1.0, took / busy)))
    found = []
    for name, numbers in counts.items():
        requests, gets = int(numbers["requests"]), int(numbers["gets"])
        common = os.path.commonprefix([bucket["prefix"] for bucket in lasts[name]])  # noqa: RUF071
        endpoint = next((last["endpoint"] for last in lasts[name] if last["endpoint"]), "")
        public = "amazonaws.com" in endpoint and "vpce" not in endpoint  # boto3 finds it by itself
        objects = Objects(
            bucket=name,
            prefix=common[: common.rfind("/") + 1],
            requests=requests,
            request_s=numbers["seconds"] / requests if requests else None,
            bytes=int(numbers["bytes"]),
            mean_object_bytes=numbers["sized_bytes"] / gets if gets else None,
            errors=tuple(sorted((+errors[name]).items())),
            body_s=numbers["body_s"] / numbers["gets"] if numbers["gets"] else None,
            seconds=end - begin if end > begin else None,
            concurrency=_concurrency(processes) if requests else None,
            requests_per_step=_per_step(name, recording, observed) if observed else None,
            endpoint="" if public else endpoint,
        )
        found.append(objects)
    return tuple(found)


def _concurrency(processes: Sequence[Busy]) -> float | None:
    """Requests under way at once; None without any.

    Processes that follow one another, as the workers of one epoch those of another, do not
    add up.
    """
    covered, until = 0.0, float("-inf")
    for begin, end, _ in sorted(processes):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    work = sum((end - begin) * many for begin, end, many in processes)
    return work / covered if covered > 0 else None


def _per_step(bucket: str, recording: Recording, observed: Observed) -> float | None:
    """Requests for one step of a rank, from the blocks of real steps; None without any.

    Other phases replay batches, or draw more than they count.
    """
    blocks = [block for block in observed.of("block") if block["p"] == "real"]
    steps = sum(block["n"] for block in blocks) * observed.steps_per_call
    if not steps:
        return None
    requests = 0.0
    for events in recording.events.values():
        counted = [
            (event["t"], float(sums["requests"]))
            for event in events
            if event["e"] == "s3"
            for sums in event["buckets"]
            if sums["bucket"] == bucket
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
