"""Training scripts without a framework, as legs of trials: quick to start, exact to plan."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from kit.processes import LONG_S, strays
from trainperf.model import Equivalence, Leg, Run
from trainperf.run.stopping import Guard
from trainperf.trial.budget import Bench, Clock, Costs
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.leg import Leg as RunningLeg
from trainperf.trial.legs.starting import let_start
from trainperf.trial.queue import Queue

TRIES = 3
"""A neighbour's burst may spoil what is timed in one run; it does not in three."""

LOOP = """
import json, os, queue, signal, sys, threading, time
from types import SimpleNamespace
from _trainperf_child.timing.device import HostClock
from _trainperf_child.timing.drivers.driver import Driver
from _trainperf_child.timing.loops import Loops
from _trainperf_child.process.process import Process
from _trainperf_child.timing.training import Training

class Plain(Loops):
    name = "torch"
    batches = SimpleNamespace(undistributed=lambda dataset: dataset)

    def __init__(self, training):
        super().__init__(training)
        self.device = HostClock(self.process.clock)

    def facts(self, driver):
        return dict()

    def record_facts(self, *_):
        pass

    stages = probes = record_facts

class Loop(Driver):
    kind = "call"
    phases = ("real",)

def training():
    with open(os.environ["TRAINPERF_RUN"], encoding="utf-8") as file:
        return Training(Process(json.load(file)))

def train(step, steps=100_000):
    loop = None
    seen = training()
    for number in range(steps):
        if loop is None and number == 1:
            seen.process.record.write("first_update")
            loop = seen.driver = Loop(Plain(seen))
        if loop is not None:
            loop.boundary()
        step(number)
    seen.process.record.flush()

def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
"""

PLAIN = LOOP + "train(lambda number: time.sleep({}))\n"


def repeated(test: Callable[..., None]) -> Callable[..., None]:
    """A test of what is timed, run again in a folder of its own where that came out wrong."""

    @wraps(test)
    def tried(tmp_path: Path, **fixtures: Any) -> None:
        for attempt in range(TRIES):
            folder = tmp_path / str(attempt)
            folder.mkdir()
            try:
                test(tmp_path=folder, **fixtures)
            except AssertionError:
                if attempt == TRIES - 1:
                    raise
            else:
                break

    return tried


def written(folder: Path, source: str, name: str = "train.py") -> Path:
    path = folder / name
    if not path.exists():
        path.write_text(source, encoding="utf-8")
    return path


def base_run(script: Path, epochs: int = 0, **changes: Any) -> Run:
    run = Run((sys.executable, str(script)), str(script.parent), script.name, leg=Leg(6, epochs))
    return replace(run, **changes)


def changed(base: Run, script: Path, source: str, name: str = "fix") -> Candidate:
    """A candidate that runs `source` in place of the script."""
    run = replace(base, sources={str(script): source.encode()})
    return Candidate((name,), run, Equivalence.EXACT, 2.0, 0)


def clock(seconds: float = 60.0, interrupted: Callable[[], bool] = lambda: False) -> Clock:
    return Clock(time.monotonic() + seconds, interrupted)


def bench(run: Run, folder: Path, step_s: float = 0.02, slots: int = 10) -> Bench:
    costs = Costs(start_s=1.0, step_s=step_s, epoch_s=None, cores=2, slots=slots, at_once=3)
    return Bench(run, folder / "runs", costs, lambda text, share: None)


@contextmanager
def queue(run: Run, folder: Path, step_s: float = 0.02, slots: int = 10) -> Any:
    with Queue(bench(run, folder, step_s, slots)) as engine:
        yield engine


def warm_up(started: Sequence[RunningLeg], guard: Guard) -> None:
    """Start legs, and wait until each stands at its first slice or has failed."""
    let_start(started, guard, LONG_S, lambda: False, alone=True)


def states(mark: str) -> list[tuple[int, str]]:
    """Every process of a test that is stopped now: its number and its command."""
    import psutil

    found = []
    for process in strays(mark):
        try:
            if process.status() == psutil.STATUS_STOPPED:
                found.append((process.pid, " ".join(process.cmdline())))
        except psutil.Error:
            continue
    return found
