"""How much a probe of S3 may ask for, and what that costs at most."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

USD_PER_REQUEST = 0.0004 / 1000
"""AWS's published price of a GET or HEAD of S3 Standard, us-east-1."""

USD_PER_LIST = 0.005 / 1000
"""AWS's published price of a LIST of S3 Standard, us-east-1."""

USD_PER_BYTE_OUT = 0.09 / 1e9
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


class Budget:
    """Counts requests and bytes, from any thread, against the limits."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.requests = 0
        self.lists = 0
        self.bytes = 0
        self._clock = clock
        self._until = clock() + limits.seconds
        self._lock = threading.Lock()

    @property
    def left_s(self) -> float:
        """Seconds left, 0 at least."""
        return max(0.0, self._until - self._clock())

    def ask(self, operation: str = "") -> None:
        """Take a request out of the budget, each attempt by itself; raises `Spent`."""
        with self._lock:
            if self.requests >= self.limits.requests or self.left_s <= 0:
                raise Spent
            self.requests += 1
            self.lists += operation.startswith("ListObjects")

    def got(self, many: int) -> None:
        """Count bytes that came; raises `Spent` once there are too many, or time is up."""
        with self._lock:
            self.bytes += many
            if self.bytes >= self.limits.bytes or self.left_s <= 0:
                raise Spent


def usd(requests: int, lists: int, many_bytes: int, same_region: bool) -> float:
    """What requests and bytes cost at most, US dollars, by the published prices above."""
    out = 0.0 if same_region else many_bytes * USD_PER_BYTE_OUT
    return (requests - lists) * USD_PER_REQUEST + lists * USD_PER_LIST + out
