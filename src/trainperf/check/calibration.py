"""How fast the machine is now: a fixed piece of work, timed beside each run.

A shared machine is not always as fast as it was. A regression is one only where the
script got slower and this work did not.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from trainperf.check.values import Speed

BLOCKS = 12
"""Pieces of work in each process; the fastest goes."""

MOST = 16
"""Processes at most: more cores than these say no more."""

TIMEOUT_S = 60.0
"""After so long the machine has other troubles; the check goes on without its speed."""

WORK = """
import json, sys, time
def work():
    total, seen, block = 0, {}, bytes(range(256)) * 8192
    for index in range(60000):
        total = (total * 31 + index) & 0xffffff
        seen[total & 1023] = index
    for _ in range(24):
        block = bytes(bytearray(block))
    return total
work()
took = []
for _ in range(int(sys.argv[1])):
    began = time.perf_counter()
    for _ in range(2):
        work()
    took.append(time.perf_counter() - began)
print(json.dumps(took))
"""
"""About 0.05 s a piece on a core of an AMD EPYC: arithmetic, a small dictionary, and copies
of 2 MiB, in the interpreter alone."""


def speed(cores: float) -> Speed | None:
    """Time the work on one core, then on `cores` at once; None where it cannot be run.

    Takes about one and a half seconds.
    """
    one = _fastest(1)
    many = max(1, min(MOST, int(cores)))
    together = one if many == 1 else _fastest(many)
    return None if one is None or together is None else Speed(one, together)


def _fastest(processes: int) -> float | None:
    """The fastest piece of each of so many processes at once: their median; seconds."""
    started: list[subprocess.Popen[str]] = []
    try:
        for _ in range(processes):
            command = (sys.executable, "-I", "-S", "-c", WORK, str(BLOCKS))
            pipe = subprocess.PIPE
            started.append(
                subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
            )
        outputs = [one.communicate(timeout=TIMEOUT_S)[0] for one in started]
        fastest = [float(min(json.loads(output))) for output in outputs]
        return statistics.median(fastest)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    finally:
        for one in started:
            if one.poll() is None:
                one.kill()
                one.wait()
