"""How long threads wait for a core, and what others take of the cores."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from trainperf.samplers.contention import RunQueue, schedstat

pytestmark = pytest.mark.alone

counted = pytest.mark.skipif(
    not Path("/proc/self/task").exists() or not Path("/proc/self/schedstat").exists(),
    reason="the kernel does not count how long threads wait",
)


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_a_process_that_is_gone_says_nothing() -> None:
    queue = RunQueue()
    queue.read([2**30])
    assert queue.read([2**30]) is None


@counted
def test_two_threads_that_share_a_core_wait_for_each_other() -> None:
    before = os.sched_getaffinity(0)
    queue = RunQueue()
    spin(0.01)
    queue.read([os.getpid()])
    os.sched_setaffinity(0, {min(before)})
    try:
        children = [os.fork() for _ in range(2)]
        if 0 in children:
            spin(0.3)
            os._exit(0)
        time.sleep(0.2)
        queue.read(children)
        time.sleep(0.2)
        found = queue.read(children)
    finally:
        os.sched_setaffinity(0, before)
        for child in children:
            os.waitpid(child, 0)
    assert found is not None
    running, waiting = found
    assert waiting > 0.2 * running


@pytest.mark.parametrize("text", ["", "12\n", "a b c\n"])
def test_counts_that_cannot_be_read_are_none(tmp_path: Path, text: str) -> None:
    assert schedstat(str(tmp_path)) is None
    (tmp_path / "schedstat").write_text(text)
    assert schedstat(str(tmp_path)) is None
    (tmp_path / "schedstat").write_text("12 3 4\n")
    assert schedstat(str(tmp_path)) == (12, 3)
