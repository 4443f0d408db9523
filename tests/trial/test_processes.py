"""All processes of a leg are stopped and woken, whichever session they are in."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from trainperf.trial.legs.processes import Processes, carries, has_ended, stat

RUN_FILE = "/nowhere/run-of-test_processes"
PARENT = """
import subprocess, sys, time
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],
                         start_new_session=True)
print(other.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def started():
    """A process and one that it has put into a session of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TRAINPERF_RUN": RUN_FILE},
        start_new_session=True,
    )
    other = int(process.stdout.readline())
    assert until(lambda: carries(process.pid, RUN_FILE) and carries(other, RUN_FILE))
    yield process.pid, other
    for pid in (other, process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def until(condition) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_all_sessions_of_a_run_are_stopped_and_woken_what_started_them_first(started):
    first, other = started
    processes = Processes(first, RUN_FILE)
    processes.find([other])
    assert not processes.is_stopped()
    processes.stop()
    assert processes.others == [first, other]
    assert until(lambda: {stat(pid)[0] for pid in started} == {"T"})
    assert processes.is_stopped()
    processes.wake()
    assert until(lambda: "T" not in {stat(pid)[0] for pid in started})


def test_what_trained_and_has_ended_is_named(started):
    first, other = started
    processes = Processes(first, RUN_FILE)
    processes.find([other])
    assert processes.gone() == []
    os.kill(other, signal.SIGKILL)
    assert until(lambda: has_ended(other))
    assert processes.gone() == [other]
