"""Objects that a script read from S3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trainperf.evidence.events import NoLoop, Observed, choose
from trainperf.model import Event, Objects, Recording
from trainperf.run.event_files import training

LATE_S = 0.5
"""Sums are written some time after the request: those just behind the last block belong to it."""

KEYS = 8


@dataclass
class _Sums:
    """The counts of one bucket, over all processes."""

    numbers: dict[str, float] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    keys: dict[str, int | None] = field(default_factory=dict)
    prefixes: list[str] = field(default_factory=list)
    region: str = ""
    endpoint: str = ""


def seen(recording: Recording) -> tuple[Objects, ...]:
    """The buckets that the script read from; not yet probed.

    Requests are counted from the loop's start to the end of its last block, in all
    processes: workers fetch for the loop. Without a loop the whole run counts.
    """
    try:
        observed = choose(recording)
    except NoLoop:
        observed = None
    begin, end = _window(recording, observed)
    sums: dict[str, _Sums] = {}
    at_once: list[tuple[float, float, float]] = []
    for events in recording.events.values():
        counted = [event for event in events if event["e"] == "s3"]
        first = _last_until(counted, begin)
        last = _last_until(counted, end + LATE_S)
        if last is None:
            continue
        took = _add(sums, first, last)
        busy = last["busy"] - (first["busy"] if first else 0.0)
        if busy > 0 and took > 0:
            told = [begin] if first else [one["t"] for one in counted if one["t"] >= begin]
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


def split(path: str) -> tuple[str, str]:
    """Bucket and key of an `s3://` path: "s3://a/b/c" gives ("a", "b/c")."""
    bucket, _, key = path.removeprefix("s3://").partition("/")
    return bucket, key


def _window(recording: Recording, observed: Observed | None) -> tuple[float, float]:
    if observed is None:
        return recording.started, recording.ended
    ends = [event["t"] for event in observed.loop if event["e"] in ("block", "step")]
    return observed.start["t"], max(ends, default=recording.ended)


def _last_until(events: Sequence[Event], at: float) -> Event | None:
    return next((event for event in reversed(events) if event["t"] <= at), None)


def _add(sums: dict[str, _Sums], first: Event | None, last: Event) -> float:
    """Add what one process counted between two of its events; return the seconds of requests."""
    before = {one["bucket"]: one for one in first["buckets"]} if first else {}
    took = 0.0
    for bucket in last["buckets"]:
        earlier: dict[str, Any] = before.get(bucket["bucket"], {})
        one = sums.setdefault(bucket["bucket"], _Sums())
        for name in ("requests", "seconds", "gets", "bytes", "body_s", "sized", "sized_bytes"):
            change = bucket[name] - earlier.get(name, 0)
            one.numbers[name] = one.numbers.get(name, 0) + change
            took += change if name in ("seconds", "body_s") else 0.0
        errors = earlier.get("errors", {})
        for name, count in bucket["errors"].items():
            if count > errors.get(name, 0):
                one.errors[name] = one.errors.get(name, 0) + count - errors.get(name, 0)
        for key, size in bucket["keys"]:
            if len(one.keys) < KEYS or key in one.keys:
                one.keys[key] = size if size is not None else one.keys.get(key)
        one.prefixes.append(bucket["prefix"])
        one.region = one.region or bucket["region"]
        one.endpoint = one.endpoint or bucket["endpoint"]
    return took


def _objects(
    name: str, sums: _Sums, seconds: float, concurrency: float | None, per_step: float | None
) -> Objects:
    numbers = sums.numbers
    requests, gets, sized = (int(numbers[one]) for one in ("requests", "gets", "sized"))
    return Objects(
        bucket=name,
        prefix=_common(sums.prefixes),
        requests=requests,
        request_s=numbers["seconds"] / requests if requests else None,
        bytes=int(numbers["bytes"]),
        mean_object_bytes=numbers["sized_bytes"] / sized if sized else None,
        errors=tuple(sorted(sums.errors.items())),
        body_s=numbers["body_s"] / gets if gets else None,
        seconds=seconds if seconds > 0 else None,
        concurrency=concurrency if requests else None,
        requests_per_step=per_step,
        keys=tuple(sums.keys.items()),
        endpoint=_own(sums.endpoint),
    )


def _own(endpoint: str) -> str:
    """An endpoint that boto3 would not find by itself, else ""."""
    public = "amazonaws.com" in endpoint and "vpce" not in endpoint
    return "" if public else endpoint


def _per_step(bucket: str, recording: Recording, observed: Observed | None) -> float | None:
    """Requests for one step of a rank, from the blocks of real steps; None without any.

    Other phases replay batches, or draw more than they count.
    """
    blocks = [one for one in observed.of("block") if one["p"] == "real"] if observed else []
    steps = sum(one["n"] for one in blocks) * (observed.steps_per_call if observed else 1)
    if not steps:
        return None
    requests = 0.0
    for events in recording.events.values():
        counted = _counted(bucket, events)
        requests += sum(_at(one["t"], counted) - _at(one["s"], counted) for one in blocks)
    return requests / steps / max(1, len(training(recording.events))) or None


def _counted(bucket: str, events: Sequence[Event]) -> list[tuple[float, float]]:
    """Times, and how many requests of a bucket a process had counted until then."""
    return [
        (event["t"], float(one["requests"]))
        for event in events
        if event["e"] == "s3"
        for one in event["buckets"]
        if one["bucket"] == bucket
    ]


def _at(at: float, counted: Sequence[tuple[float, float]]) -> float:
    """Requests until `at`: between two counts, as many as its share of the time."""
    before, until = 0.0, None
    for time, requests in counted:
        if time >= at:
            share = 1.0 if until is None else (at - until) / max(time - until, 1e-9)
            return before + (requests - before) * share
        before, until = requests, time
    return before


def _common(prefixes: Sequence[str]) -> str:
    """The folder that all have in common; "" if there is none."""
    least, most = min(prefixes, default=""), max(prefixes, default="")
    length = next(
        (n for n, (a, b) in enumerate(zip(least, most, strict=False)) if a != b),
        min(len(least), len(most)),
    )
    return least[: least.rfind("/", 0, length) + 1]
