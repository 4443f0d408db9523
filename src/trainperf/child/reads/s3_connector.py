"""Watch a process read from S3 with s3torchconnector, whose requests native code makes.

What is timed is what the program waits for: the call, which returns when the first bytes
are there, then each further piece. What the library fetches ahead costs the program nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..process.patching import replace
from .s3_counts import Bucket, Counts

CODES = ("SlowDown", "AccessDenied", "NoSuchKey", "NoSuchBucket", "ExpiredToken")
"""S3's error codes that a message of the library may name."""


def hook(counts: Counts, module: ModuleType) -> None:
    """Set the hooks of `s3torchconnector._s3client._s3client`, just imported."""
    client = getattr(module, "S3Client", None)
    if client is None:
        return
    for name, make in (
        ("_get_object_stream", _getting),
        ("head_object", _asking),
        ("list_objects", _listing),
    ):
        if name in vars(client):
            replace(client, name, functools.partial(make, counts))


def _bucket(counts: Counts, client: Any, name: Any, key: Any) -> Bucket | None:
    """The sums of a bucket; never raises."""
    try:
        region, endpoint = client._region or "", client._endpoint or ""
        bucket = counts.bucket(str(name), str(region), str(endpoint))
        if bucket is not None and isinstance(key, str):
            bucket.asked(key)
        return bucket
    except Exception:
        return None


def _getting(counts: Counts, original: Any) -> Any:
    def _get_object_stream(self: Any, bucket: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
        sums = _bucket(counts, self, bucket, key)
        if sums is None:
            return original(self, bucket, key, *args, **kwargs)
        stream = _timed(counts, sums, lambda: original(self, bucket, key, *args, **kwargs))
        whole = all(each is None for each in (*args, *kwargs.values()))  # no start, no end
        return _Get(counts, sums, stream, key, whole)

    return _get_object_stream


def _listing(counts: Counts, original: Any) -> Any:
    def list_objects(self: Any, bucket: Any, prefix: Any = "", *args: Any, **kwargs: Any) -> Any:
        sums = _bucket(counts, self, bucket, None)
        stream = original(self, bucket, prefix, *args, **kwargs)  # asks nothing yet
        if sums is None:
            return stream
        if sums.prefix is None and isinstance(prefix, str):
            sums.prefix = prefix[: prefix.rfind("/") + 1]
        return _Pages(counts, sums, stream)

    return list_objects


def _asking(counts: Counts, original: Any) -> Any:
    def head_object(self: Any, bucket: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
        sums = _bucket(counts, self, bucket, key)
        if sums is None:
            return original(self, bucket, key, *args, **kwargs)
        return _timed(counts, sums, lambda: original(self, bucket, key, *args, **kwargs))

    return head_object


def _timed(counts: Counts, bucket: Bucket, call: Callable[[], Any]) -> Any:
    """Make a request, and count it with what the program waits for it."""
    began = counts.begins()
    try:
        return call()
    except Exception as error:
        bucket.went_wrong(_name(error))
        raise
    finally:
        counts.ends(lambda spent: _request(bucket, spent), began)


class _Stream:
    """Hands on what a stream of the library gives, and times how long the program waits."""

    def __init__(
        self, counts: Counts, bucket: Bucket, stream: Any, key: Any = None, whole: bool = False
    ) -> None:
        self._counts = counts
        self._bucket = bucket
        self._stream = stream
        self._key = key
        self._whole = whole
        self._got = 0

    def __iter__(self) -> _Stream:
        return self

    def __next__(self) -> Any:
        began = self._counts.begins()
        piece = None
        try:
            piece = next(self._stream)
        except StopIteration:
            raise
        except Exception as error:
            self._bucket.went_wrong(_name(error))
            raise
        finally:
            self._counts.ends(lambda spent: self._add(piece, spent), began)
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _add(self, piece: Any, spent: float) -> None:
        raise NotImplementedError


class _Get(_Stream):
    """The bytes of an object, or of a range of it."""

    def _add(self, piece: Any, spent: float) -> None:
        bucket = self._bucket
        bucket.gets += not self._got
        bucket.body_s += spent
        if piece is not None:
            self._got += len(piece)
            bucket.bytes += len(piece)
        elif self._whole and self._got:
            self._whole = False  # counted
            bucket.sized += 1
            bucket.sized_bytes += self._got
            if self._key in bucket.keys:
                bucket.keys[self._key] = self._got


class _Pages(_Stream):
    """The pages of a listing: each is a request, which is made when it is asked for."""

    def _add(self, piece: Any, spent: float) -> None:
        if piece is not None:
            _request(self._bucket, spent)


def _request(bucket: Bucket, spent: float) -> None:
    bucket.requests += 1
    bucket.seconds += spent


def _name(error: Exception) -> str:
    """The error code of S3 where the message has it, else the error's type."""
    text = str(error)
    return next((code for code in CODES if code in text), type(error).__name__)
