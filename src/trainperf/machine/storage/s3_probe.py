"""Ask S3 for a few ranges of the objects that a script reads: latency, throughput, region.

Read-only, and bounded in requests, bytes and seconds; a fault is a value, never raised.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trainperf.machine.storage.s3_client import NoClient, client, own_store
from trainperf.machine.storage.s3_errors import name_of, reason_of
from trainperf.machine.storage.s3_limits import Budget, Limits, Spent, usd
from trainperf.model import Objects

FIRST_BYTES = 5
"""How many times the first byte of an object is asked for."""

AT_ONCE = ((1, 2), (4, 4), (16, 16))
"""Concurrent requests, and how many are made in all."""

LISTED = 16
PIECE = 64 * 1024
SHARE_S = 0.9
"""The share of the time that S3 is asked; the rest is for what does not stop at once."""


def probe(
    objects: Sequence[Objects],
    env: Mapping[str, str],
    region: str | None = None,
    limits: Limits | None = None,
) -> tuple[Objects, ...]:
    """Return `objects` with what a probe of each bucket found, or the reason why it did not.

    `env` is the environment of the script, `region` that of the instance, None if it is
    none. Returns within `limits.seconds` and a little; never raises.
    """
    limits = limits or Limits()
    asked = sorted(objects, key=lambda one: -one.requests)[: limits.buckets]
    share = max(1, len(asked))
    each = replace(
        limits,
        requests=limits.requests // share,
        bytes=limits.bytes // share,
        seconds=limits.seconds / share,
    )
    found = {one.bucket: _bounded(one, env, region, each) for one in asked}
    left = f"only {limits.buckets} buckets are probed"
    return tuple(found.get(one.bucket) or replace(one, reason=left) for one in objects)


@dataclass
class _Found:
    """The answers so far: the thread that asks may not come back."""

    region: str | None = None
    latencies: list[float] = field(default_factory=list)
    throughput: dict[int, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    reason: str = ""


def _bounded(one: Objects, env: Mapping[str, str], region: str | None, limits: Limits) -> Objects:
    """Probe a bucket in a thread of its own, which is left behind if it does not end."""
    budget, found = Budget(replace(limits, seconds=limits.seconds * SHARE_S)), _Found()

    def ask() -> None:
        try:
            _ask(one, env, budget, found)
        except NoClient as error:
            found.reason = str(error)
        except Spent:
            pass
        except Exception as error:
            _note(found, error)

    thread = threading.Thread(target=ask, name="trainperf-s3", daemon=True)
    thread.start()
    thread.join(limits.seconds)
    same = found.region is not None and found.region == region
    cost = usd(budget.requests, budget.lists, budget.bytes, same)
    return _told(one, found, budget, 0.0 if own_store(env, one.endpoint) else cost)


def _ask(one: Objects, env: Mapping[str, str], budget: Budget, found: _Found) -> None:
    s3 = client(env, one.endpoint, budget)
    found.region = _region(s3, one.bucket, found)
    keys = [key for key, _ in one.keys] or _listed(s3, one, found)
    if not keys:
        found.reason = found.reason or "no object is known to ask for"
        return
    for turn in range(FIRST_BYTES):
        key = keys[turn % len(keys)]
        began = time.monotonic()
        try:
            response = s3.get_object(Bucket=one.bucket, Key=key, Range="bytes=0-0")
            with response["Body"] as body:  # closed: all of it may come, whatever was asked for
                budget.got(len(body.read(PIECE)))
        except Exception as error:
            _failed(found, error)
            continue
        found.latencies.append(time.monotonic() - began)
        size = str(response.get("ContentRange") or "").rpartition("/")[2]
        if size.isdigit():
            found.sizes[key] = int(size)
    if not found.latencies:
        return
    pieces = sum(many for _, many in AT_ONCE)
    for at_once, many in AT_ONCE:
        length = max(PIECE, budget.limits.bytes * 9 // 10 // pieces)
        rate = _throughput(s3, one.bucket, keys, (at_once, many, length), budget, found)
        if rate is None:
            return
        found.throughput[at_once] = rate


def _region(s3: Any, bucket: str, found: _Found) -> str | None:
    """The bucket's region, from the headers of any answer about it; None if not said."""
    try:
        answer = s3.head_bucket(Bucket=bucket)
    except Spent:
        raise
    except Exception as error:
        answer = getattr(error, "response", None) or {}
        _note(found, error)
    headers = (answer.get("ResponseMetadata") or {}).get("HTTPHeaders") or {}
    region = answer.get("BucketRegion") or headers.get("x-amz-bucket-region")
    if region or found.errors:
        return str(region) if region else None
    try:
        place = s3.get_bucket_location(Bucket=bucket).get("LocationConstraint")
    except Spent:
        raise
    except Exception as error:
        _note(found, error)
        return None
    return str({None: "us-east-1", "": "us-east-1", "EU": "eu-west-1"}.get(place, place))


def _listed(s3: Any, one: Objects, found: _Found) -> list[str]:
    """A few keys, from one page."""
    try:
        page = s3.list_objects_v2(Bucket=one.bucket, Prefix=one.prefix, MaxKeys=LISTED)
    except Exception as error:
        _failed(found, error)
        return []
    listed = [each for each in page.get("Contents", ()) if each.get("Size")]
    found.sizes.update({str(each["Key"]): int(each["Size"]) for each in listed})
    return [str(each["Key"]) for each in listed]


def _throughput(
    s3: Any,
    bucket: str,
    keys: Sequence[str],
    plan: tuple[int, int, int],
    budget: Budget,
    found: _Found,
) -> float | None:
    """Bytes per second with so many requests at once; None if it could not be measured."""
    at_once, many, length = plan
    turns, done, lock = iter(range(many)), [0, 0], threading.Lock()

    def fetch() -> None:
        while True:
            with lock:
                turn = next(turns, None)
            if turn is None:
                return
            try:
                response = s3.get_object(
                    Bucket=bucket, Key=keys[turn % len(keys)], Range=f"bytes=0-{length - 1}"
                )
                with response["Body"] as body:
                    _drain(body, budget, lambda got: _count(done, lock, got))
            except Exception as error:
                if not isinstance(error, Spent):
                    _note(found, error)
                return
            with lock:
                done[1] += 1

    began = time.monotonic()
    threads = [threading.Thread(target=fetch, daemon=True) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(budget.left_s + 0.05)
    took = time.monotonic() - began
    complete = done[1] >= max(1, many // 2)
    return done[0] / took if complete and took > 0 else None


def _drain(body: Any, budget: Budget, count: Callable[[int], None]) -> None:
    while piece := body.read(PIECE):
        count(len(piece))
        budget.got(len(piece))


def _count(done: list[int], lock: threading.Lock, got: int) -> None:
    with lock:
        done[0] += got


def _failed(found: _Found, error: Exception) -> None:
    """Note an error and go on; a spent budget ends the probe."""
    if isinstance(error, Spent):
        raise error
    _note(found, error)


def _note(found: _Found, error: BaseException) -> None:
    if not isinstance(error, Spent):
        found.errors[name_of(error)] += 1


def _told(one: Objects, found: _Found, budget: Budget, cost: float) -> Objects:
    """The objects with what was found; where nothing was, the reason."""
    reason = found.reason
    if not found.latencies and not reason:
        common = dict(found.errors).items()
        worst = max(common, key=lambda pair: pair[1], default=("Timeout", 0))[0]
        reason = reason_of(worst)
    sizes = list(found.sizes.values())
    keys = one.keys or tuple(found.sizes.items())[:8]
    size = one.mean_object_bytes
    return replace(
        one,
        region=found.region,
        keys=tuple((key, known or found.sizes.get(key)) for key, known in keys),
        mean_object_bytes=statistics.fmean(sizes) if size is None and sizes else size,
        latency_s=statistics.median(found.latencies) if found.latencies else None,
        throughput=tuple(sorted(found.throughput.items())),
        probe_errors=tuple(sorted(dict(found.errors).items())),
        probed_requests=budget.requests,
        probed_bytes=budget.bytes,
        probed_usd=cost,
        reason=reason,
    )
