"""Count the S3 requests of one process: sums by bucket, never the requests themselves."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

BUCKETS = 8
"""So many buckets are told apart; the requests of further ones are only counted."""
KEYS = 8
"""So many keys of a bucket are kept, for trainperf to ask for again."""
ERRORS = 8
EVERY_S = 0.1
"""How often the sums are written while requests are made."""
SNAPSHOTS = 400
"""After so many, the sums are written half as often, and again after as many more."""

Write = Callable[[dict[str, Any]], None]


class Bucket:
    """The sums of one bucket; seconds and bytes."""

    def __init__(self, name: str, region: str, endpoint: str) -> None:
        self.name = name
        self.region = region
        self.endpoint = endpoint
        self.requests = 0
        self.seconds = 0.0  # until the response
        self.gets = 0
        self.bytes = 0
        self.body_s = 0.0  # reading what came behind the response
        self.sized = 0
        self.sized_bytes = 0
        self.prefix: str | None = None
        self.keys: dict[str, int | None] = {}
        self.errors: dict[str, int] = {}

    def asked(self, key: str) -> None:
        """Take the key of a request: the folder that all have in common, and a few of them."""
        if self.prefix is None:
            self.prefix = key[: key.rfind("/") + 1]
        elif not key.startswith(self.prefix):
            common = os.path.commonprefix((self.prefix, key))  # noqa: RUF071 - cut at "/" below
            self.prefix = common[: common.rfind("/") + 1]
        if len(self.keys) < KEYS:
            self.keys.setdefault(key, None)

    def went_wrong(self, name: str) -> None:
        """Count an error by its name."""
        if name in self.errors or len(self.errors) < ERRORS:
            self.errors[name] = self.errors.get(name, 0) + 1

    def sums(self) -> dict[str, Any]:
        """The sums as they are recorded."""
        return {
            "bucket": self.name,
            "region": self.region,
            "endpoint": self.endpoint,
            "requests": self.requests,
            "seconds": self.seconds,
            "gets": self.gets,
            "bytes": self.bytes,
            "body_s": self.body_s,
            "sized": self.sized,
            "sized_bytes": self.sized_bytes,
            "prefix": self.prefix or "",
            "keys": list(self.keys.items()),
            "errors": dict(self.errors),
        }


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
