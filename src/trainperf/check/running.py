"""Run a script until a check is decided: once where it passes, several times before it fails."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainperf.model import Diagnosis, Ending
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
class Speed:
    """How fast the machine is at one moment: seconds of a fixed piece of work.

    `one_s` on one core, `all_s` on as many as the process may use at the same time; the
    fastest of several goes.
    """

    one_s: float
    all_s: float


@dataclass(frozen=True)
class Repeat:
    """One run of the script; seconds per step.

    `fastest_s` is the mean of the fastest run of consecutive steps, `mean_s` that of all
    steps with `noise`, half its interval as a share of it. `agreement` is how far the
    fastest quarter of the runs of steps reaches above `fastest_s`, as a share of it.
    `cores` is what the script kept busy, `others` what other programs did meanwhile, `idle`
    what nobody did. `hosts` are names of the machine:
    its own, and that of its last start, which the containers on it have in common.
    None where not measured.
    """

    fastest_s: float
    mean_s: float
    noise: float | None = None
    agreement: float | None = None
    batch_size: int | None = None
    cores: float | None = None
    others: float | None = None
    utilization: float | None = None
    speed: Speed | None = None
    idle: float | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Runs:
    """The runs of a check: the whole diagnosis, every run, and the machine's speed beside each.

    `ended` is the diagnosis of a run in which no step could be timed, which ends it all.
    """

    diagnosis: Diagnosis
    repeats: tuple[Repeat, ...]
    ended: Diagnosis | None = None


def run(
    observe: Callable[[], Diagnosis],
    calibrate: Callable[[], Speed | None],
    until: float,
    at_least: int,
    settled: Callable[[Runs], bool],
    clock: Callable[[], float] = time.monotonic,
) -> Runs:
    """Run the script by `observe` until `settled`, `at_least` times; stops when the time is over.

    `calibrate` times the machine beside the runs. No run begins that would not end by `until` if it
    took as long as the one before it.
    """
    runs: Runs | None = None
    beside = calibrate()
    while True:
        began = clock()
        diagnosis = observe()
        made = () if runs is None else runs.repeats
        if diagnosis.step_s is None or diagnosis.ending in ENDS_ALL:
            return Runs(diagnosis, made, diagnosis)
        before, beside = beside, calibrate()
        latest = repeat(diagnosis, _faster(before, beside), text(_BOOT) or "")
        fastest = min((run.fastest_s for run in made), default=math.inf)
        if runs is not None and latest.fastest_s >= fastest:
            diagnosis = runs.diagnosis  # that of the least disturbed run stands for all
        runs = Runs(diagnosis, (*made, latest))
        many = len(runs.repeats)
        if many >= MOST_RUNS or (many >= at_least and settled(runs)):
            return runs
        if 2 * clock() - began > until:
            return runs


def agree(runs: Runs) -> bool:
    """Whether the runs of a baseline are enough: the slowest is about as fast as the fastest."""
    times = [run.fastest_s for run in runs.repeats]
    return max(times) <= min(times) * (1 + AGREE)


def _faster(a: Speed | None, b: Speed | None) -> Speed | None:
    """The machine at its best beside a run."""
    if a is None or b is None:
        return a or b
    return Speed(min(a.one_s, b.one_s), min(a.all_s, b.all_s))


def repeat(diagnosis: Diagnosis, speed: Speed | None = None, boot: str = "") -> Repeat:
    """The figures of a diagnosis that a check compares; its step must have been timed. Pure.

    `boot` names the start of the machine that it ran on, "" where it has none.
    """
    real = diagnosis.real
    assert real is not None
    blocks = sorted(real.blocks)
    fastest = blocks[0] if blocks else real.seconds
    quarter = blocks[(len(blocks) - 1) // 4] if len(blocks) > 3 else None
    use = next((use for use in diagnosis.evidence.use if use.phase == "real"), None)
    cores, machine = (None, None) if use is None else (use.cpu_cores, use.machine_cpu_cores)
    box, others, idle = diagnosis.evidence.machine, None, None
    if cores is not None and machine is not None:
        others = max(0.0, machine - cores)
    if machine is not None and box.cores >= box.visible_cores:  # else it may not use all of them
        idle = max(0.0, box.visible_cores - machine)
    return Repeat(
        fastest_s=fastest,
        mean_s=real.seconds,
        noise=diagnosis.noise,
        agreement=None if quarter is None else quarter / fastest - 1,
        batch_size=diagnosis.evidence.loop.batch_size,
        cores=cores,
        others=others,
        utilization=diagnosis.verdict.utilization,
        speed=speed,
        idle=idle,
        hosts=tuple(filter(None, (box.hostname, boot))),
    )


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
    command, pipe = (sys.executable, "-I", "-S", "-c", WORK, str(BLOCKS)), subprocess.PIPE
    try:
        for _ in range(processes):
            started.append(
                subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
            )
        outputs = [process.communicate(timeout=TIMEOUT_S)[0] for process in started]
        return statistics.median(float(min(json.loads(output))) for output in outputs)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()
