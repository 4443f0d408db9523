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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

from ..process.patching import around
from ..process.process import Process
from ..process.recorder import Recorder

BUCKETS = 8
"""So many buckets are told apart."""
ERRORS = 8
EVERY_S = 0.1
"""How often the sums are written while requests are made."""

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
    sized_bytes: int = 0  # of the whole objects, where parts were asked for
    prefix: str | None = None
    errors: dict[str, int] = field(default_factory=dict)

    def add(self, key: Any, got: Any, error: BaseException | None, seconds: float) -> None:
        """Count a request; `got` is what came of asking for an object, None for all else."""
        self.requests += 1
        self.seconds += seconds
        if isinstance(key, str):  # the folder that all have in common
            keys = (key,) if self.prefix is None else (self.prefix, key)
            common = os.path.commonprefix(keys)  # noqa: RUF071 - cut at "/" here
            self.prefix = common[: common.rfind("/") + 1]
        if error is not None:
            told = getattr(error, "response", None) or {}
            name = str(told.get("Error", {}).get("Code") or type(error).__name__)[:60]
            if name in self.errors or len(self.errors) < ERRORS:
                self.errors[name] = self.errors.get(name, 0) + 1
        length = None if got is None else got.get("ContentLength")
        if isinstance(length, int):
            whole = str(got.get("ContentRange") or "").rpartition("/")[2]
            self.gets += 1
            self.bytes += length
            self.sized_bytes += int(whole) if whole.isdigit() else length

    def add_body(self, seconds: float) -> None:
        self.body_s += seconds


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
        self._active = 0
        self._busy = 0.0
        self._since = 0.0
        self._written = 0.0

    def bucket(self, name: str, region: str, endpoint: str) -> Bucket | None:
        """The sums of a bucket; None for one too many."""
        with self._lock:
            if name not in self._buckets and len(self._buckets) < BUCKETS:
                self._buckets[name] = Bucket(name, region, endpoint)
            return self._buckets.get(name)

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
            if now - self._written < EVERY_S:
                return
            self._written = now
            sums = {
                "buckets": [  # copied at once: requests of other threads fail meanwhile
                    vars(each) | {"errors": dict(each.errors), "prefix": each.prefix or ""}
                    for each in self._buckets.values()
                ],
                "busy": self._busy + (now - self._since if self._active else 0.0),
            }
        self._write(sums)


READING = frozenset({"GetObject", "HeadObject", "ListObjects", "ListObjectsV2"})
"""Operations that are counted: those that read. Checkpoints that are put are another matter."""

QUIET = "not recorded"
"""`Recorder.broken` of a process that helps another one."""


def hook(process: Process, counts: Counts, module: ModuleType) -> None:
    """Set the hooks of `botocore.client` or another client of S3, just imported."""
    if module.__name__ == "botocore.client":

        @around(process, module.BaseClient, "_make_api_call", ours=True)
        def call(original: Any, client: Any, operation: Any, params: Any) -> Any:
            with _counting(counts, client, operation, params) as answer:
                answer.append(original(client, operation, params))
            return answer[0]

        body = getattr(sys.modules.get("botocore.response"), "StreamingBody", None)
        if body is not None:
            around(process, body, "read", ours=True)(partial(_read, counts))
    else:

        @around(process, module.AioBaseClient, "_make_api_call", ours=True)
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


@contextmanager
def _counting(counts: Counts, client: Any, operation: str, params: Any) -> Iterator[list[Any]]:
    """Count the call that is made within, if it reads from S3; its answer goes into the list."""
    bucket, answer = None, list[Any]()
    with suppress(Exception):  # else a figure less; the program has its answer
        meta = client.meta
        if operation in READING and meta.service_model.service_name == "s3":
            places = str(meta.region_name or ""), str(meta.endpoint_url or "")
            bucket = counts.bucket(str(params["Bucket"]), *places)
    if bucket is None:
        yield answer
        return
    began = counts.begins()
    wrong: BaseException | None = None
    try:
        yield answer
    except BaseException as error:
        wrong = error
        raise
    finally:
        with suppress(Exception):
            got = answer[0] if answer and operation == "GetObject" else None
            counts.ends(partial(bucket.add, params.get("Key"), got, wrong), began)
            if got is not None and hasattr(got.get("Body"), "__dict__"):
                got["Body"]._trainperf_bucket = bucket


def _read(counts: Counts, original: Any, body: Any, *args: Any, **kwargs: Any) -> Any:
    bucket = getattr(body, "_trainperf_bucket", None)
    if bucket is None:
        return original(body, *args, **kwargs)
    began = counts.begins()
    try:
        return original(body, *args, **kwargs)
    finally:
        counts.ends(bucket.add_body, began)
