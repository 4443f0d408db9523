"""Watch a process read from S3: botocore (boto3, s3transfer), aiobotocore (s3fs), and others.

A call costs a few microseconds more; nothing is asked of S3 here. Worker processes of
a DataLoader, which record nothing else, write their sums as well.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from ..process.patching import replace
from ..process.process import Process
from ..process.recorder import Recorder
from .s3_counts import Bucket, Counts

READING = frozenset({"GetObject", "HeadObject", "ListObjects", "ListObjectsV2"})
"""Operations that are counted: those that read. Checkpoints that are put are another matter."""

QUIET = "not recorded"
"""`Recorder.broken` of a process that helps another one."""

_current: ContextVar[Bucket | None] = ContextVar("trainperf_s3", default=None)


def hook(counts: Counts, module: ModuleType) -> None:
    """Set the hooks of `botocore.client` or another client of S3, just imported."""
    if module.__name__ == "botocore.client":
        replace(module.BaseClient, "_make_api_call", lambda original: _called(counts, original))
        _hook_attempts(sys.modules.get("botocore.endpoint"), "Endpoint", _attempted)
        body = getattr(sys.modules.get("botocore.response"), "StreamingBody", None)
        if body is not None:
            replace(body, "read", lambda original: _read(counts, original))
    else:
        replace(module.AioBaseClient, "_make_api_call", lambda original: _awaited(counts, original))
        _hook_attempts(sys.modules.get("aiobotocore.endpoint"), "AioEndpoint", _attempt_awaited)


def counts(process: Process) -> Counts:
    """The sums of this process."""
    made = Counts(_Writing(process))
    os.register_at_fork(after_in_child=made.forked)
    return made


class _Writing:
    """Writes the sums as events; in a quiet process to a record of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._own: Recorder | None = None
        self._pid = -1

    def __call__(self, sums: dict[str, Any]) -> None:
        record = self._process.record
        if record.broken == QUIET:
            if self._own is None or self._pid != os.getpid():
                self._own, self._pid = Recorder(record.folder), os.getpid()
            record = self._own
        record.write("s3", **sums)
        record.flush()


class _Call:
    """A request under way."""

    def __init__(self, counts: Counts, bucket: Bucket, params: Any, get: bool) -> None:
        self._counts = counts
        self._bucket = bucket
        self._get = get
        self._key = params.get("Key")
        if isinstance(self._key, str):
            bucket.asked(self._key)
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
        if self._key in bucket.keys:
            bucket.keys[self._key] = size


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


def _called(counts: Counts, original: Any) -> Any:
    def _make_api_call(self: Any, operation_name: Any, api_params: Any) -> Any:
        call = _begin(counts, self, operation_name, api_params)
        if call is None:
            return original(self, operation_name, api_params)
        try:
            response = original(self, operation_name, api_params)
        except BaseException as error:
            _end(call, None, error)
            raise
        _end(call, response)
        return response

    return _make_api_call


def _awaited(counts: Counts, original: Any) -> Any:
    async def _make_api_call(self: Any, operation_name: Any, api_params: Any) -> Any:
        call = _begin(counts, self, operation_name, api_params)
        if call is None:
            return await original(self, operation_name, api_params)
        try:
            response = await original(self, operation_name, api_params)
        except BaseException as error:
            _end(call, None, error)
            raise
        _end(call, response)
        return response

    return _make_api_call


def _read(counts: Counts, original: Any) -> Any:
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        bucket = getattr(self, "_trainperf_bucket", None)
        if bucket is None:
            return original(self, *args, **kwargs)
        began = counts.begins()
        try:
            return original(self, *args, **kwargs)
        finally:

            def add(seconds: float) -> None:
                bucket.body_s += seconds

            counts.ends(add, began)

    return read


def _hook_attempts(module: ModuleType | None, owner: str, make: Any) -> None:
    """See each attempt of a call: botocore tries again by itself, and says so to nobody."""
    cls = getattr(module, owner, None)
    if cls is not None and "_needs_retry" in vars(cls):
        replace(cls, "_needs_retry", make)


def _attempted(original: Any) -> Any:
    def _needs_retry(self: Any, *args: Any, **kwargs: Any) -> Any:
        _attempt(*args, **kwargs)
        return original(self, *args, **kwargs)

    return _needs_retry


def _attempt_awaited(original: Any) -> Any:
    async def _needs_retry(self: Any, *args: Any, **kwargs: Any) -> Any:
        _attempt(*args, **kwargs)
        return await original(self, *args, **kwargs)

    return _needs_retry


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
