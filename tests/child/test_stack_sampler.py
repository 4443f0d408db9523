"""What the sampler of stacks counts, when it is quiet, and what it leaves as it was."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trainperf.child.stacks import StackSampler


def busy(until: Callable[[], bool], seconds: float = 10.0) -> None:
    """Spin here, in a function of the user's, until something has happened."""
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        sum(range(200))
    assert until()


@pytest.fixture
def samplers() -> Iterator[list[StackSampler]]:
    made: list[StackSampler] = []
    yield made
    for sampler in made:
        sampler.stop()


def test_time_is_counted_where_it_passes(samplers: list[StackSampler]) -> None:
    sampler = StackSampler(0.001)
    samplers.append(sampler)
    sampler.start()
    busy(lambda: sampler.samples >= 20)
    first = sampler.stop()[0]
    assert first["thread"] == "main"
    assert first["file"] == __file__
    assert first["function"] in ("busy", "test_time_is_counted_where_it_passes.<locals>.<lambda>")
    assert sum(one["n"] for one in sampler.stop() if one["thread"] == "main") >= 20


def test_nothing_is_counted_while_the_loop_is_over(samplers: list[StackSampler]) -> None:
    asked: list[bool] = []
    over = True

    def is_over() -> bool:
        asked.append(over)
        return over

    sampler = StackSampler(0.001, is_over)
    samplers.append(sampler)
    sampler.start()
    busy(lambda: len(asked) >= 5)
    assert sampler.samples == 0
    over = False
    busy(lambda: sampler.samples > 0)


def test_a_frame_that_is_none_ends_no_sampling(
    samplers: list[StackSampler], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sys._current_frames
    odd = iter(range(3))
    monkeypatch.setattr(
        sys, "_current_frames", lambda: {0: "no frame"} if next(odd, None) is not None else real()
    )
    sampler = StackSampler(0.001)
    samplers.append(sampler)
    sampler.start()
    busy(lambda: sampler.samples >= 5)
    assert next(odd, None) is None


@pytest.mark.parametrize("collecting", [True, False])
def test_no_garbage_is_collected_by_the_sampler_before_python_3_12(
    collecting: bool, samplers: list[StackSampler], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    real = sys._current_frames

    def frames() -> Any:
        seen.append(gc.isenabled())
        return real()

    monkeypatch.setattr(sys, "_current_frames", frames)
    try:
        if not collecting:
            gc.disable()
        sampler = StackSampler(0.001)
        samplers.append(sampler)
        sampler.start()
        busy(lambda: len(seen) >= 5)
        sampler.stop()
        assert gc.isenabled() is collecting
        assert set(seen) == {collecting and sys.version_info >= (3, 12)}
    finally:
        gc.enable()


def test_stopping_ends_the_thread(samplers: list[StackSampler]) -> None:
    sampler = StackSampler(0.001)
    samplers.append(sampler)
    sampler.start()
    assert "trainperf-stacks" in [one.name for one in threading.enumerate()]
    sampler.stop()
    assert "trainperf-stacks" not in [one.name for one in threading.enumerate()]
