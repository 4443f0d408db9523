"""Which lines of the user's the threads stand at, while they run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from observing import LONG_S
from trainperf.child.process import lines
from trainperf.child.process.lines import LineSampler


def outer(until: Callable[[], bool]) -> None:
    inner(until)


def inner(until: Callable[[], bool]) -> None:
    while not until():
        sum(range(200))


def sampled(sampler: LineSampler) -> Callable[[], bool]:
    """Whether it has seen this file's main thread a few times."""
    late = time.monotonic() + LONG_S

    def enough() -> bool:
        assert time.monotonic() < late
        main = sampler._threads.get(threading.get_ident(), [])
        return len(main) >= 5

    return enough


@pytest.fixture
def seen() -> dict[str, Any]:
    sampler = LineSampler()
    sampler.start()
    outer(sampled(sampler))
    return sampler.stop()


def main_of(seen: dict[str, Any]) -> dict[str, Any]:
    [main] = [one for one in seen["threads"] if one["main"]]
    return dict(main)


def test_the_stack_is_told_from_the_outside_in_with_its_lines(seen: dict[str, Any]) -> None:
    stacks = [stack for _, stack in main_of(seen)["samples"]]
    names = [[seen["places"][number][2] for number in stack] for stack in stacks]
    assert any("outer" in one and one.index("outer") < one.index("inner") for one in names)
    files = {seen["places"][number][0] for stack in stacks for number in stack}
    assert __file__ in files
    assert not any("site-packages" in file for file in files)


def test_times_go_forward(seen: dict[str, Any]) -> None:
    times = [at for at, _ in main_of(seen)["samples"]]
    assert times == sorted(times)
    assert len(times) >= 5


def test_the_samplers_own_thread_is_not_seen(seen: dict[str, Any]) -> None:
    assert "trainperf-lines" not in [one["name"] for one in seen["threads"]]


def test_no_more_samples_are_kept_than_a_few_seconds_of_them(monkeypatch) -> None:
    monkeypatch.setattr(lines, "MOST", 3)
    sampler = LineSampler()
    for _ in range(10):
        sampler._sample(0)
    assert {len(one) for one in sampler._threads.values()} == {3}
