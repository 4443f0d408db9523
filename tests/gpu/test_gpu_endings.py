"""However a diagnosis ends, its memory on the card, its processes and segments are gone."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from gpu_kit import Place, memory_used, on_both, segments, soon

from observing import strays

SLACK = 256 * 2**20
"""Bytes by which the card's use may differ: other programs come and go."""

WORDS = ("--workers", "2", "--persistent", "--item", "0.002", "--step", "0.005")


def used(place: Place) -> int:
    return 0 if place.emulated else memory_used()


def all_gone(place: Place, mark: str, memory: int, shm: set[str]) -> None:
    assert soon(lambda: strays(mark) == []), strays(mark)
    assert soon(lambda: used(place) <= memory + SLACK), used(place) - memory
    assert soon(lambda: segments() <= shm), segments() - shm


@pytest.mark.timeout(120)
@on_both(seconds=10)
def test_nothing_is_left_after_a_training_that_ends(place: Place, mark: str) -> None:
    memory, shm = used(place), segments()
    place.diagnosed("hidden.py", *WORDS, "--items", "300", "--epochs", "3",
                    options=("--budget", "20s", "--no-trials"))  # fmt: skip
    all_gone(place, mark, memory, shm)


@pytest.mark.timeout(120)
@on_both(seconds=13)
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=["ctrl_c", "kill_9"])
def test_nothing_is_left_after_a_signal_in_the_trials(
    place: Place, mark: str, sent: signal.Signals
) -> None:
    memory, shm = used(place), segments()
    process = place.started(
        sys.executable, "-m", "trainperf", "diagnose", "--budget", "60s",
        "--only", "torch_prefetch_factor", "--only", "torch_workers", "--output-dir", "runs",
        "hidden.py", *WORDS,
    )  # fmt: skip
    began = time.monotonic()
    soon(lambda: len(strays(mark)) > 3 or process.poll() is not None, 15)  # script and workers
    time.sleep(max(0.0, 8 - (time.monotonic() - began)))
    assert process.poll() is None, process.communicate()[0]
    os.kill(process.pid, sent)
    process.communicate(timeout=60)
    all_gone(place, mark, memory, shm)
