"""Ask S3 for a few ranges of the objects that a script reads: latency, throughput, region.

Read-only, and bounded in requests, bytes and seconds; a fault is a value, never raised.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trainperf.model import Objects

FIRST_BYTES = 5
"""How many times the first byte of an object is asked for."""

AT_ONCE = ((1, 2), (4, 4), (16, 16))
"""Concurrent requests, and how many are made in all."""

PIECE = 64 * 1024
SHARE_S = 0.9
"""The share of the time that S3 is asked; the rest is for what does not stop at once."""

CONNECT_S = 1.0
READ_S = 1.5

_BY_STATUS = {
    "301": "PermanentRedirect",
    "400": "BadRequest",
    "403": "AccessDenied",
    "404": "NotFound",
    "500": "InternalError",
    "503": "SlowDown",
}
"""A HEAD has no body to name its error in."""

_REASONS = {
    "AccessDenied": "S3 denied access: these credentials may not read there (s3:GetObject)",
    "MfaNeeded": "the profile's role wants an MFA code, and trainperf asks nobody for one",
    "PermanentRedirect": "the bucket is in another region",
    "SSOTokenLoadError": "the sign-on of the profile has run out: aws sso login",
    "UnauthorizedSSOTokenError": "the sign-on of the profile has run out: aws sso login",
    "SlowDown": "S3 asked to slow down (503)",
    "Timeout": "S3 did not answer in time",
}

_TIMEOUTS = ("ReadTimeoutError", "ConnectTimeoutError", "TimeoutError")

_USD_PER_REQUEST = 0.0004 / 1000
"""AWS's published price of a GET or HEAD of S3 Standard, us-east-1."""

_USD_PER_BYTE_OUT = 0.09 / 1e9
"""AWS's published price of transfer to the internet, us-east-1, first 10 TB of a month: what
leaves a region for another costs less, what stays in it nothing."""


@dataclass(frozen=True)
class Limits:
    """The most that all buckets together may take; seconds of wall time."""

    requests: int = 40
    bytes: int = 64 * 1024**2
    seconds: float = 3.0
    buckets: int = 3


class Spent(Exception):  # noqa: N818 - an outcome, not an error
    """A limit is reached: no further request."""


class NoClient(Exception):  # noqa: N818 - an outcome; its text is the reason
    """There is nothing to ask S3 with."""


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
        except Exception as error:  # `Spent` among them
            _note(found, error)

    thread = threading.Thread(target=ask, name="trainperf-s3", daemon=True)
    thread.start()
    thread.join(limits.seconds)
    same = found.region is not None and found.region == region
    cost = budget.requests * _USD_PER_REQUEST + (0 if same else budget.bytes * _USD_PER_BYTE_OUT)
    aws = "amazonaws.com" in (_endpoint(env, one.endpoint) or "amazonaws.com")
    return _told(one, found, budget, cost if aws else 0.0)  # another store has other prices


def _ask(one: Objects, env: Mapping[str, str], budget: Budget, found: _Found) -> None:
    s3 = _client(env, one.endpoint, budget)
    found.region = _region(s3, one.bucket, found)
    keys = [key for key, _ in one.keys]
    if not keys:
        found.reason = "no object is known to ask for"
        return
    for turn in range(FIRST_BYTES):
        key = keys[turn % len(keys)]
        began = time.monotonic()
        try:
            response = s3.get_object(Bucket=one.bucket, Key=key, Range="bytes=0-0")
            with response["Body"] as body:  # closed: all of it may come, whatever was asked for
                budget.got(len(body.read(PIECE)))
        except Exception as error:
            _note(found, error)
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
    except Exception as error:
        answer = getattr(error, "response", None) or {}
        _note(found, error)
    headers = (answer.get("ResponseMetadata") or {}).get("HTTPHeaders") or {}
    region = answer.get("BucketRegion") or headers.get("x-amz-bucket-region")
    return str(region) if region else None


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
                    while piece := body.read(PIECE):
                        with lock:
                            done[0] += len(piece)
                        budget.got(len(piece))
            except Exception as error:
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


def _note(found: _Found, error: Exception) -> None:
    if not isinstance(error, Spent):
        found.errors[_name_of(error)] += 1


def _told(one: Objects, found: _Found, budget: Budget, cost: float) -> Objects:
    """The objects with what was found; where nothing was, the reason."""
    reason = found.reason
    if not found.latencies and not reason:
        common = dict(found.errors).items()
        worst = max(common, key=lambda pair: pair[1], default=("Timeout", 0))[0]
        reason = _REASONS.get(worst, f"S3 could not be asked: {worst}")
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


def _client(env: Mapping[str, str], endpoint: str, budget: Budget) -> Any:
    """Return a boto3 client that asks once, and through `budget`.

    Credentials, profile and region are those of `env`, the environment of the script, else
    what boto3 finds by itself; `AWS_ENDPOINT_URL_S3` and `AWS_ENDPOINT_URL` are honoured,
    after the `endpoint` of the script's own client. Raises `NoClient` where there are none:
    nothing is asked anonymously.
    """
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ProfileNotFound

    from trainperf.machine.aws import session as aws_session

    try:
        session = aws_session.session(
            aws_access_key_id=env.get("AWS_ACCESS_KEY_ID") or None,
            aws_secret_access_key=env.get("AWS_SECRET_ACCESS_KEY") or None,
            aws_session_token=env.get("AWS_SESSION_TOKEN") or None,
            profile_name=env.get("AWS_PROFILE") or None,
        )
        if session.get_credentials() is None:
            raise NoClient("no AWS credentials were found")
        made = session.client(
            "s3",
            region_name=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None,
            endpoint_url=_endpoint(env, endpoint),
            config=Config(
                retries={"total_max_attempts": 1, "mode": "standard"},
                connect_timeout=CONNECT_S,
                read_timeout=READ_S,
                max_pool_connections=32,
            ),
        )
    except ProfileNotFound as error:
        raise NoClient(f"no S3 client: {error}") from None
    except (BotoCoreError, ValueError) as error:
        # Its name alone: what a credential_process wrote to stderr may stand in the text.
        raise NoClient(f"no S3 client: {type(error).__name__}") from None

    made.meta.events.register_first("before-send.s3", lambda **_: budget.ask())
    return made


def _endpoint(env: Mapping[str, str], endpoint: str) -> str | None:
    return endpoint or env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None


def _name_of(error: BaseException) -> str:
    """The name of an error: S3's own code, or what happened to the connection."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):
        said = response.get("Error") or {}
        code = str(said.get("Code") or "")
        status = str((response.get("ResponseMetadata") or {}).get("HTTPStatusCode") or "")
        return _BY_STATUS.get(code) or code or _BY_STATUS.get(status) or f"status {status}"
    kind = type(error).__name__
    return "Timeout" if kind in _TIMEOUTS else kind


class Budget:
    """Counts requests and bytes, from any thread, against the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.requests = 0
        self.bytes = 0
        self._until = time.monotonic() + limits.seconds
        self._lock = threading.Lock()

    @property
    def left_s(self) -> float:
        """Seconds left, 0 at least."""
        return max(0.0, self._until - time.monotonic())

    def ask(self) -> None:
        """Take a request out of the budget, each attempt by itself; raises `Spent`."""
        with self._lock:
            if self.requests >= self.limits.requests or self.left_s <= 0:
                raise Spent
            self.requests += 1

    def got(self, many: int) -> None:
        """Count bytes that came; raises `Spent` once there are too many, or time is up."""
        with self._lock:
            self.bytes += many
            if self.bytes >= self.limits.bytes or self.left_s <= 0:
                raise Spent
