"""However a diagnosis ends, its memory on the card, its processes and segments are gone."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from gpu_kit import Place, memory_used, on_both, segments

from kit.processes import soon, strays
from trainperf.run.stopping import LEG

SLACK = 256 * 2**20
"""Bytes by which the card's use may differ: other programs come and go."""

WARMING_S = 4.0
"""Legs hold their memory soon after their start."""

WORDS = ("--persistent", "--item", "0.02", "--step", "0.005")


def with_a_worker(place: Place) -> None:
    """Let the script have one by itself: of an argument on the command line no edit is made."""
    script = place.folder / "hidden.py"
    before = '"--workers", type=int, default=0'
    assert before in script.read_text()
    script.write_text(script.read_text().replace(before, before[:-1] + "1"))


def used(place: Place) -> int:
    return 0 if place.emulated else memory_used()


def all_gone(place: Place, mark: str, memory: int, shm: set[str]) -> None:
    assert soon(lambda: strays(mark) == []), strays(mark)
    assert soon(lambda: used(place) <= memory + SLACK), used(place) - memory
    assert soon(lambda: segments() <= shm), segments() - shm


@pytest.mark.timeout(120)
@on_both(seconds=20)
def test_nothing_is_left_after_a_training_that_ends(place: Place, mark: str) -> None:
    with_a_worker(place)
    memory, shm = used(place), segments()
    report = place.diagnosed("hidden.py", *WORDS, "--until", "30",
                             options=("--budget", "60s", "--no-trials"))  # fmt: skip
    assert report["ending"] == "finished", report["ending"]
    all_gone(place, mark, memory, shm)


@pytest.mark.timeout(120)
@on_both(seconds=25)
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=["ctrl_c", "kill_9"])
def test_nothing_is_left_after_a_signal_in_the_trials(
    place: Place, mark: str, sent: signal.Signals
) -> None:
    with_a_worker(place)
    place.probe_little()
    memory, shm = used(place), segments()
    process = place.started(
        sys.executable, "-m", "trainperf", "diagnose", "--budget", "60s",
        "--only", "torch_workers", "--output-dir", "runs", "hidden.py", *WORDS,
    )  # fmt: skip
    there = soon(lambda: any(place.folder.glob(f"runs/*/**/{LEG}*")), 60)
    time.sleep(WARMING_S)
    assert there, process.communicate(timeout=60)[0]
    assert process.poll() is None, process.communicate()[0]
    os.kill(process.pid, sent)
    process.communicate(timeout=60)
    all_gone(place, mark, memory, shm)
    for folder in Path(os.environ["TMPDIR"]).glob("pymp-*"):
        folder.rmdir()  # empty: Python's own, of a script that nobody could end in peace
