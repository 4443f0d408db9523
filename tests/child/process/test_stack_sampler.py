"""The sampler of stacks: its counts, its silence, and the program left as it was."""

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

from trainperf.child.process.stacks import Stack, StackSampler, stack_of


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


HOOKS = """
class Path:
    def __init__(self, seen): self.seen = seen
    def __fspath__(self): return self.seen() or "path"
def looks_up(join, seen): return join(Path(seen), "file")
def hands_on(real, seen): return real(seen)
"""


@pytest.mark.parametrize(("hook", "counted"), [("looks_up", []), ("hands_on", ["real"])])
def test_what_a_hook_of_ours_does_itself_is_not_put_down_to_its_caller(hook, counted):
    """Paths and imports are ours; what the hook is set around is the user's doing."""
    ours: dict[str, Any] = {"__name__": "_trainperf_child.hooks"}
    exec(compile(HOOKS, "<hooks>", "exec"), ours)
    library: dict[str, Any] = {"__name__": "library"}
    exec(compile("def real(seen): return seen()", "<library>", "exec"), library)
    sampler = StackSampler()
    seen: list[FrameType] = []
    take = eval("lambda: seen.append(look())", {"seen": seen, "look": sys._getframe})
    ours[hook](posixpath.join if hook == "looks_up" else library["real"], take)

    sampler._count(stack_of(seen[0]), True, False)

    found = list(sampler._counts)
    assert [into for *_, into in found] == counted
    assert all(
        key[3] == test_what_a_hook_of_ours_does_itself_is_not_put_down_to_its_caller.__name__
        for key in found
    )


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


def test_the_text_of_what_ran_is_told_and_how_often_a_batch_was_fetched(samplers):
    fetching: dict[str, Any] = {"__name__": "torch.utils.data.dataloader"}
    exec(compile("def __next__(seen): return seen()", "<library>", "exec"), fetching)
    sampler = StackSampler()
    seen: list[FrameType] = []

    def look() -> None:
        seen.append(sys._getframe())

    look()
    fetching["__next__"](look)
    for frame in seen:
        sampler._count(stack_of(frame), True, True)
        sampler._whole([(stack_of(frame), MAIN)])

    assert sampler.fetching == 1
    assert ["def look" in source["text"] for source in sampler.sources()] == [True]


def stack(within: str = "", **of: bool) -> Stack:
    told = {"ours": False, "of_users": False, "of_framework": False, "works": True, **of}
    return Stack((), "call", "library.call", within, **told)


MAIN, OTHER = threading.main_thread().ident, -1


@pytest.mark.parametrize(
    ("main", "other", "owner"),
    [
        (stack(), stack("input", of_framework=True), "main"),  # works ahead
        (stack(of_users=True), stack("python", of_framework=True), "main"),
        (stack("input"), stack("python"), "main"),  # a thread of the user's
        (stack("input"), stack("input"), "other"),  # which the main thread waits for
        (stack(), stack("python", of_framework=True), "other"),  # within the step
    ],
)
def test_a_step_passes_in_one_thread_at_a_time(main, other, owner):
    sampler = StackSampler()
    sampler._whole([(main, MAIN), (other, OTHER)])
    (kept,) = [told for told in sampler.stacks() if told["thread"] == "main"]
    assert kept["within"] == (main if owner == "main" else other).within


def test_the_first_run_of_what_was_compiled_is_compiling():
    sampler = StackSampler(compiling=lambda: True)
    for within in ("", "model", "input"):
        sampler._whole([(stack(within), MAIN)])
    assert sorted(told["within"] for told in sampler.stacks()) == ["compiling", "input"]
