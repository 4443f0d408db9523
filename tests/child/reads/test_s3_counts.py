"""Sums of S3 requests: bounded, right with several at once, and the child's own after a fork."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

from kit.child import Clock
from trainperf.child.reads.s3 import Counts


def counted() -> tuple[Counts, Clock, list[dict[str, Any]]]:
    written: list[dict[str, Any]] = []
    clock = Clock()
    return Counts(written.append, clock), clock, written


def made(counts: Counts, clock: Clock, seconds: float, bucket: str = "data") -> None:
    one = counts.bucket(bucket, "", "")
    began = counts.begins()
    clock.now += seconds

    def add(took: float) -> None:
        if one is not None:
            one.requests += 1
            one.seconds += took

    counts.ends(add, began)


def test_after_a_fork_nothing_of_the_parents_is_left():
    counts, clock, written = counted()
    made(counts, clock, 1.0)
    counts.forked()
    made(counts, clock, 1.0)
    assert written[-1]["buckets"][0]["requests"] == 1
    assert written[-1]["busy"] == 1.0


def test_a_signals_handler_that_asks_s3_while_a_request_is_counted_does_not_hang() -> None:
    code = """
        import signal
        from trainperf.child.reads.s3 import Counts
        counts = Counts(lambda sums: None)
        def asks(*_):
            counts.ends(lambda seconds: None, counts.begins())
        signal.signal(signal.SIGUSR1, asks)
        counts.ends(lambda seconds: signal.raise_signal(signal.SIGUSR1), counts.begins())
        print("went on")
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=30
    )
    assert ran.stdout == "went on\n"
