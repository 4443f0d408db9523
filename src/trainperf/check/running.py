"""Run a script until a check is decided: once where it passes, several times before it fails."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.check.values import Repeat, Speed
from trainperf.model import Diagnosis, Ending, Machine, PhaseUse
from trainperf.samplers.levels import text

BASELINE_RUNS = 3
"""Runs of a baseline, where they agree; else `MOST_RUNS`."""

AGREE = 0.03
"""How far the slowest run of a baseline may lie above the fastest: twice what two processes of
one script differ by."""

ALARM_RUNS = 3
"""Runs before a check may fail, as far as the budget goes."""

MOST_RUNS = 5
"""Runs at most: what five do not settle, ten would not on that machine."""

ENDS_ALL = (Ending.FAILED, Ending.SIGNALLED, Ending.STALLED, Ending.INTERRUPTED)
"""Endings after which there is nothing to compare, whatever was timed before."""

Observe = Callable[[], Diagnosis]
"""Runs the script once and says what was seen."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
"""The name of the last start of the kernel (Linux), the same in every container on it."""

BLOCKS = 12
"""Pieces of work in each process; the fastest goes."""

_MOST = 16
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


@dataclass(frozen=True)
class Runs:
    """The runs of a check: the whole diagnosis, every run, and the machine's speed beside each.

    `ended` is the diagnosis of a run in which no step could be timed, which ends it all.
    """

    diagnosis: Diagnosis
    repeats: tuple[Repeat, ...]
    ended: Diagnosis | None = None


@dataclass(frozen=True)
class Means:
    """How runs are made: the effects, and the moment by which the last must have begun."""

    observe: Observe
    speed: Callable[[], Speed | None]
    until: float
    clock: Callable[[], float] = time.monotonic


def run(means: Means, at_least: int, settled: Callable[[Runs], bool]) -> Runs:
    """Run the script until `settled`, `at_least` times; stops when the time is over.

    No run begins that would not end in time if it took as long as the one before it.
    """
    runs: Runs | None = None
    beside = means.speed()
    while True:
        began = means.clock()
        diagnosis = means.observe()
        if diagnosis.step_s is None or diagnosis.ending in ENDS_ALL:
            return Runs(diagnosis, () if runs is None else runs.repeats, diagnosis)
        after = means.speed()
        one = repeat(diagnosis, _faster(beside, after), boot_name())
        beside = after
        runs = (
            Runs(diagnosis, (one,))
            if runs is None
            else replace(runs, repeats=(*runs.repeats, one), diagnosis=_kept(runs, one, diagnosis))
        )
        many = len(runs.repeats)
        if many >= MOST_RUNS or (many >= at_least and settled(runs)):
            return runs
        if 2 * means.clock() - began > means.until:
            return runs


def agree(runs: Runs) -> bool:
    """Whether the runs of a baseline are enough: the slowest is about as fast as the fastest."""
    times = [one.fastest_s for one in runs.repeats]
    return max(times) <= min(times) * (1 + AGREE)


def _kept(runs: Runs, one: Repeat, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis of the least disturbed run stands for all."""
    fastest = min(each.fastest_s for each in runs.repeats)
    return diagnosis if one.fastest_s < fastest else runs.diagnosis


def _faster(a: Speed | None, b: Speed | None) -> Speed | None:
    """The machine at its best beside a run."""
    if a is None or b is None:
        return a or b
    return Speed(min(a.one_s, b.one_s), min(a.all_s, b.all_s))


def repeat(diagnosis: Diagnosis, speed: Speed | None = None, boot: str = "") -> Repeat:
    """The figures of a diagnosis that a check compares; its step must have been timed. Pure.

    `boot` names the start of the machine that it ran on, as `boot_name` does.
    """
    real = diagnosis.real
    assert real is not None
    blocks = sorted(real.blocks)
    fastest = blocks[0] if blocks else real.seconds
    quarter = blocks[(len(blocks) - 1) // 4] if len(blocks) > 3 else None
    use = next((one for one in diagnosis.evidence.use if one.phase == "real"), None)
    return Repeat(
        fastest_s=fastest,
        mean_s=real.seconds,
        noise=diagnosis.noise,
        agreement=None if quarter is None else quarter / fastest - 1,
        batch_size=diagnosis.evidence.loop.batch_size,
        cores=None if use is None else use.cpu_cores,
        others=None if use is None else _others(use),
        utilization=diagnosis.verdict.utilization,
        findings=tuple(one.id for one in diagnosis.findings),
        speed=speed,
        bounds=tuple(one.bound for one in diagnosis.findings),
        idle=None if use is None else _idle(use, diagnosis.evidence.machine),
        hosts=tuple(filter(None, (diagnosis.evidence.machine.hostname, boot))),
    )


def boot_name() -> str:
    """The id of this machine's last start; "" where it has none."""
    return text(_BOOT) or ""


def _others(use: PhaseUse) -> float | None:
    """Cores that other programs kept busy while the script trained."""
    if use.cpu_cores is None or use.machine_cpu_cores is None:
        return None
    return max(0.0, use.machine_cpu_cores - use.cpu_cores)


def _idle(use: PhaseUse, machine: Machine) -> float | None:
    """Cores that nobody kept busy; None where the script may not use all of them."""
    if use.machine_cpu_cores is None or machine.cores < machine.visible_cores:
        return None
    return max(0.0, machine.visible_cores - use.machine_cpu_cores)


# How fast the machine is now: a fixed piece of work, timed beside each run.
#
# A shared machine is not always as fast as it was. A regression is one only where the script got
# slower and this work did not.


def speed(cores: float) -> Speed | None:
    """Time the work on one core, then on `cores` at once; None where it cannot be run.

    Takes about one and a half seconds.
    """
    one = _fastest(1)
    many = max(1, min(_MOST, int(cores)))
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
