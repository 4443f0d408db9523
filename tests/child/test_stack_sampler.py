"""What the sampler of stacks counts, when it is quiet, and what it leaves as it was."""

from __future__ import annotations

import gc
import posixpath
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
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


HOOKS = """
class Path:
    def __init__(self, seen): self.seen = seen
    def __fspath__(self): return self.seen() or "path"
def looks_up(join, seen): return join(Path(seen), "file")
def hands_on(real, seen): return real(seen)
"""


@pytest.mark.parametrize(("hook", "counted"), [("looks_up", []), ("hands_on", ["real"])])
def test_what_a_hook_of_ours_does_itself_is_not_put_down_to_its_caller(
    hook: str, counted: list[str]
) -> None:
    """Paths and imports are ours; what the hook is set around is the user's doing."""
    ours: dict[str, Any] = {"__name__": "_trainperf_child.hooks"}
    exec(compile(HOOKS, "<hooks>", "exec"), ours)
    library: dict[str, Any] = {"__name__": "library"}
    exec(compile("def real(seen): return seen()", "<library>", "exec"), library)
    sampler = StackSampler()
    seen: list[FrameType] = []
    take = eval("lambda: seen.append(look())", {"seen": seen, "look": sys._getframe})
    ours[hook](posixpath.join if hook == "looks_up" else library["real"], take)

    sampler._count("main", seen[0])

    found = list(sampler._counts)
    assert [into for *_, into in found] == counted
    assert all(
        key[3] == test_what_a_hook_of_ours_does_itself_is_not_put_down_to_its_caller.__name__
        for key in found
    )


def test_nothing_is_counted_while_the_one_who_starts_it_waits(
    samplers: list[StackSampler], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = StackSampler(0.001)
    samplers.append(sampler)
    begin, counted = sampler._thread.start, []

    def slowly() -> None:
        begin()
        time.sleep(0.05)
        counted.append(sampler.samples)

    monkeypatch.setattr(sampler._thread, "start", slowly)
    sampler.start()
    assert counted == [0]
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
