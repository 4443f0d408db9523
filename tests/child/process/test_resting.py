"""Waiting for what runs in the background."""

import subprocess
import sys
import threading
from multiprocessing import get_context

import pytest

from trainperf.child.process.resting import LOOK_S, cpu_s, rests


class Clock:
    """Time that passes while one sleeps, with what is computed meanwhile."""

    def __init__(self, *cores):
        self.now, self.used, self.cores = 0.0, 0.0, list(cores)

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.used += seconds * (self.cores.pop(0) if self.cores else 0.0)

    def rests(self, most_s):
        return rests(most_s, self, self.sleep, lambda: self.used)


def test_what_rests_is_waited_for_once():
    clock = Clock(0.01)
    assert clock.rests(1.0)
    assert clock.now == LOOK_S


def test_what_fills_its_buffers_is_waited_for_until_they_are_full():
    clock = Clock(2.0, 1.5, 0.3, 0.0)
    assert clock.rests(1.0)
    assert clock.now == 4 * LOOK_S


def test_what_never_rests_is_not_waited_for_any_longer():
    clock = Clock(*[1.0] * 1000)
    assert not clock.rests(1.0)
    assert 1.0 <= clock.now < 1.0 + 2 * LOOK_S


def _spin():
    while True:
        pass


@pytest.mark.alone
def test_threads_and_worker_processes_count():
    begun = cpu_s()
    thread = threading.Thread(target=lambda: sum(range(3_000_000)))
    thread.start()
    thread.join()
    assert cpu_s() > begun
    worker = get_context("fork").Process(target=_spin, daemon=True)
    worker.start()
    try:
        assert not rests(0.3)
    finally:
        worker.kill()
        worker.join()
    assert rests(5.0)


def test_it_needs_the_standard_library_only():
    code = "import trainperf.child.process.resting, sys; assert 'psutil' not in sys.modules"
    subprocess.run((sys.executable, "-c", code), check=True)
