from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from trainperf.samplers import process_tree
from trainperf.samplers.sampling import HostSampler

pytestmark = pytest.mark.script

BURN = "print('up', flush=True)\nwhile True: pass"
SLEEP = "import time; time.sleep(600)"


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_a_busy_process_is_busier_than_a_sleeping_one() -> None:
    with running(BURN) as busy, running("print('up', flush=True); " + SLEEP) as idle:
        assert line(busy) == line(idle) == "up"
        samplers = HostSampler(busy.pid), HostSampler(idle.pid)
        began = sum(psutil.Process(busy.pid).cpu_times()[:2])
        wait_for(lambda: sum(psutil.Process(busy.pid).cpu_times()[:2]) > began + 0.2)
        hot, cold = (sampler.sample() for sampler in samplers)
    assert hot is not None
    assert cold is not None
    assert hot.cpu_cores > cold.cpu_cores
    assert hot.machine_cpu_cores >= hot.cpu_cores
    assert hot.rss > 0
    assert (hot.processes, hot.threads) == (1, 1)


def test_a_process_that_lost_its_parent_counts_by_its_session() -> None:
    # A shell that ends at once leaves the grandchild to init, in the same session.
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.run(['sh', '-c', sys.executable + ' -c \"{SLEEP}\" >/dev/null & echo done'])\n"
        "time.sleep(60)"
    )
    with running(code) as process:
        assert line(process) == "done"
        sampler = HostSampler(process.pid)
        wait_for(lambda: len(psutil.Process(process.pid).children()) == 0)
        sample = sampler.sample()
    assert sample is not None
    assert sample.processes == 2


class Tree(process_tree.ProcessTree):
    """A tree whose readings are given: own and reaped CPU seconds by process."""

    def __init__(self) -> None:
        super().__init__(0)

    def seconds(self, **readings: tuple[float, float]) -> float:
        usage: Any = {
            name: process_tree._Usage(own, reaped, 0, 1, None)
            for name, (own, reaped) in readings.items()
        }
        seconds = self._cpu_since(usage)
        self._last = usage
        return seconds


def test_what_a_child_used_is_counted_once_when_its_parent_waits_for_it() -> None:
    tree = Tree()
    tree.seconds(parent=(1.0, 0.0), child=(2.0, 0.0))
    assert tree.seconds(parent=(1.0, 2.5)) == pytest.approx(0.5)  # the child's last moments
