"""Waiting for what runs in the background."""

import os
import threading
import time
from multiprocessing import get_context

import pytest

from trainperf.child.timing.phases import LOOK_S, Busy, rests


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


def test_what_never_rests_is_not_waited_for_any_longer():
    clock = Clock(*[1.0] * 1000)
    assert not clock.rests(1.0)
    assert 1.0 <= clock.now < 1.0 + 2 * LOOK_S


def _spin(begun=None):
    if begun is not None:
        begun.set()
    while True:
        pass


def _spin_on_one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    _spin()


@pytest.mark.alone
def test_threads_and_worker_processes_count():
    over = threading.Event()
    thread = threading.Thread(target=lambda: [None for _ in iter(over.is_set, True)])
    thread.start()
    try:
        assert not rests(0.3)
    finally:
        over.set()
        thread.join()
    begun = get_context("fork").Event()
    worker = get_context("fork").Process(target=_spin, args=(begun,), daemon=True)
    worker.start()
    try:
        begun.wait()
        assert not rests(0.3)
    finally:
        worker.kill()
        worker.join()
    assert rests(5.0)


def test_a_thread_that_has_ended_takes_nothing_back():
    busy, over = Busy(), threading.Event()
    thread = threading.Thread(target=lambda: [None for _ in iter(over.is_set, True)])
    thread.start()
    time.sleep(0.05)
    before = busy.seconds()
    over.set()
    thread.join()
    assert busy.seconds() >= before > 0


@pytest.mark.alone
def test_who_waits_for_a_core_does_not_rest():
    """Two on one core: the one gets half of it, and waits for the other half."""
    both = [get_context("fork").Process(target=_spin_on_one_core, daemon=True) for _ in range(2)]
    busy = Busy()
    before = busy.seconds(), time.monotonic()
    for one in both:
        one.start()
    time.sleep(1.0)
    try:
        assert busy.seconds() - before[0] > 1.3 * (time.monotonic() - before[1] - 0.3)
    finally:
        for one in both:
            one.kill()
            one.join()
