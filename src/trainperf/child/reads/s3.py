"""Watch a process read from S3: botocore (boto3, s3transfer), aiobotocore (s3fs), and others.

A call costs a few microseconds more; nothing is asked of S3 here. Worker processes of
a DataLoader, which record nothing else, write their sums as well.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

from ..process.patching import around
from ..process.process import Process
from ..process.recorder import Recorder

BUCKETS = 8
"""So many buckets are told apart; the requests of further ones are only counted."""
ERRORS = 8
EVERY_S = 0.1
"""How often the sums are written while requests are made."""
SNAPSHOTS = 400
"""After so many, the sums are written half as often, and again after as many more."""

Write = Callable[[dict[str, Any]], None]


@dataclass
class Bucket:
    """The sums of one bucket; seconds and bytes."""

    bucket: str
    region: str
    endpoint: str
    requests: int = 0
    seconds: float = 0.0  # until the response
    gets: int = 0
    bytes: int = 0
    body_s: float = 0.0  # reading what came behind the response
    sized: int = 0
    sized_bytes: int = 0
    prefix: str | None = None
    errors: dict[str, int] = field(default_factory=dict)

    def asked(self, key: str) -> None:
        """Take the key of a request: the folder that all have in common."""
        if self.prefix is None:
            self.prefix = key[: key.rfind("/") + 1]
        elif not key.startswith(self.prefix):
            common = os.path.commonprefix((self.prefix, key))  # noqa: RUF071 - cut at "/" below
            self.prefix = common[: common.rfind("/") + 1]

    def went_wrong(self, name: str) -> None:
        if name in self.errors or len(self.errors) < ERRORS:
            self.errors[name] = self.errors.get(name, 0) + 1

    def sums(self) -> dict[str, Any]:
        # Copied at once: requests of other threads fail meanwhile.
        return vars(self) | {"errors": dict(self.errors), "prefix": self.prefix or ""}


class Counts:
    """The requests of a process, from any thread; `write` takes the sums now and then.

    `busy` is the time in which at least one request was under way: the seconds of all
    requests over it say how many were at once.
    """

    def __init__(self, write: Write, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self.forked()

    def forked(self) -> None:
        """Start anew: what was counted so far is the parent's."""
        # Re-entrant: a signal's handler or a finalizer may ask S3 while this very thread counts.
        self._lock = threading.RLock()
        self._buckets: dict[str, Bucket] = {}
        self._more = 0
        self._active = 0
        self._busy = 0.0
        self._since = 0.0
        self._written = 0.0
        self._snapshots = 0
        self._every = EVERY_S

    def bucket(self, name: str, region: str, endpoint: str) -> Bucket | None:
        """The sums of a bucket; None for one too many, which is only counted."""
        with self._lock:
            found = self._buckets.get(name)
            if found is None:
                if len(self._buckets) >= BUCKETS:
                    self._more += 1
                    return None
                found = self._buckets[name] = Bucket(name, region, endpoint)
            return found

    def begins(self) -> float:
        """A request, or the reading of its body, begins; return when."""
        with self._lock:
            now = self._clock()
            if self._active == 0:
                self._since = now
            self._active += 1
            return now

    def ends(self, add: Callable[[float], None], began: float) -> None:
        """It ends: `add` takes its seconds. Writes the sums if it is time to."""
        with self._lock:
            now = self._clock()
            self._active = max(0, self._active - 1)
            if self._active == 0:
                self._busy += now - self._since
            add(now - began)
            if now - self._written < self._every:
                return
            self._written = now
            self._snapshots += 1
            if self._snapshots % SNAPSHOTS == 0:
                self._every *= 2
            busy = self._busy + (now - self._since if self._active else 0.0)
            sums = {
                "buckets": [bucket.sums() for bucket in self._buckets.values()],
                "busy": busy,
                "more": self._more,
            }
        self._write(sums)


READING = frozenset({"GetObject", "HeadObject", "ListObjects", "ListObjectsV2"})
"""Operations that are counted: those that read. Checkpoints that are put are another matter."""

QUIET = "not recorded"
"""`Recorder.broken` of a process that helps another one."""

_current: ContextVar[Bucket | None] = ContextVar("trainperf_s3", default=None)


def hook(counts: Counts, module: ModuleType) -> None:
    """Set the hooks of `botocore.client` or another client of S3, just imported."""
    if module.__name__ == "botocore.client":
        _hook_attempts(sys.modules.get("botocore.endpoint"), "Endpoint")

        @around(None, module.BaseClient, "_make_api_call")
        def call(original: Any, client: Any, operation: Any, params: Any) -> Any:
            with _counting(counts, client, operation, params) as answer:
                answer.append(original(client, operation, params))
            return answer[0]

        body = getattr(sys.modules.get("botocore.response"), "StreamingBody", None)
        if body is not None:
            around(None, body, "read")(partial(_read, counts))
    else:
        _hook_attempts(sys.modules.get("aiobotocore.endpoint"), "AioEndpoint")

        @around(None, module.AioBaseClient, "_make_api_call")
        async def wait(original: Any, client: Any, operation: Any, params: Any) -> Any:
            with _counting(counts, client, operation, params) as answer:
                answer.append(await original(client, operation, params))
            return answer[0]


def counts(process: Process) -> Counts:
    own: dict[int, Recorder] = {}

    def write(sums: dict[str, Any]) -> None:
        """As events; in a quiet process to a record of its own."""
        record = process.record
        if record.broken == QUIET:
            pid = os.getpid()
            record = own[pid] = own.get(pid) or Recorder(record.folder)
        record.write("s3", **sums)
        record.flush()

    made = Counts(write)
    os.register_at_fork(after_in_child=made.forked)
    return made


class _Call:
    """A request under way."""

    def __init__(self, counts: Counts, bucket: Bucket, params: Any, get: bool) -> None:
        self._counts = counts
        self._bucket = bucket
        self._get = get
        key = params.get("Key")
        if isinstance(key, str):
            bucket.asked(key)
        self._token = _current.set(bucket)
        self._began = counts.begins()

    def ends(self, response: Any, error: BaseException | None) -> None:
        """Count it; `response` is what came of it, None after an error."""
        bucket = self._bucket
        _current.reset(self._token)

        def add(seconds: float) -> None:
            bucket.requests += 1
            bucket.seconds += seconds
            if error is not None and not isinstance(getattr(error, "response", None), dict):
                bucket.went_wrong(type(error).__name__)  # others were seen attempt by attempt
            if response is not None and self._get:
                self._got(response)

        self._counts.ends(add, self._began)
        body = response.get("Body") if response is not None and self._get else None
        if body is not None and hasattr(body, "__dict__"):
            body._trainperf_bucket = bucket

    def _got(self, response: Any) -> None:
        bucket, length = self._bucket, response.get("ContentLength")
        if not isinstance(length, int):
            return
        bucket.gets += 1
        bucket.bytes += length
        size = length
        whole = str(response.get("ContentRange") or "").rpartition("/")[2]
        if whole.isdigit():
            size = int(whole)
        bucket.sized += 1
        bucket.sized_bytes += size


def _begin(counts: Counts, client: Any, operation: str, params: Any) -> _Call | None:
    """The call, if it is one that reads from S3; never raises."""
    try:
        if operation not in READING or client.meta.service_model.service_name != "s3":
            return None
        meta = client.meta
        bucket = counts.bucket(
            str(params["Bucket"]), str(meta.region_name or ""), str(meta.endpoint_url or "")
        )
        return None if bucket is None else _Call(counts, bucket, params, operation == "GetObject")
    except Exception:
        return None


def _end(call: _Call | None, response: Any, error: BaseException | None = None) -> None:
    try:
        if call is not None:
            call.ends(response, error)
    except Exception:
        pass  # a figure less; the program has its answer


@contextmanager
def _counting(counts: Counts, client: Any, operation: str, params: Any) -> Iterator[list[Any]]:
    """Count the call that is made within; its answer goes into the list."""
    call, answer = _begin(counts, client, operation, params), list[Any]()
    try:
        yield answer
    except BaseException as error:
        _end(call, None, error)
        raise
    _end(call, answer[0])


def _read(counts: Counts, original: Any, body: Any, *args: Any, **kwargs: Any) -> Any:
    bucket = getattr(body, "_trainperf_bucket", None)
    if bucket is None:
        return original(body, *args, **kwargs)

    def add(seconds: float) -> None:
        bucket.body_s += seconds

    began = counts.begins()
    try:
        return original(body, *args, **kwargs)
    finally:
        counts.ends(add, began)


def _hook_attempts(module: ModuleType | None, owner: str) -> None:
    """See each attempt of a call: botocore tries again by itself, and says so to nobody."""

    cls = getattr(module, owner, None)
    if cls is None or "_needs_retry" not in vars(cls):
        return

    @around(None, cls, "_needs_retry")
    def retry(original: Any, endpoint: Any, *args: Any, **kwargs: Any) -> Any:
        _attempt(*args, **kwargs)
        return original(endpoint, *args, **kwargs)  # of aiobotocore's, to be awaited


def _attempt(
    attempts: Any = None,
    operation_model: Any = None,
    request_dict: Any = None,
    response: Any = None,
    caught_exception: Any = None,
) -> None:
    """Count what went wrong in one attempt of the current call."""
    bucket = _current.get()
    if bucket is None:
        return
    try:
        if response is not None and response[0].status_code >= 300:
            code = response[1].get("Error", {}).get("Code") or response[0].status_code
            bucket.went_wrong(str(code)[:60])
    except Exception:
        pass
