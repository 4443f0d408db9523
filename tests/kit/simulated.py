"""Legs that are not there, on a clock that only they move: exact tests of who runs when."""

from __future__ import annotations

import math
import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from trainperf.model import Equivalence, Run
from trainperf.trial import queue
from trainperf.trial.budget import Bench, Clock, Costs
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs import starting
from trainperf.trial.legs.faults import LegFailed
from trainperf.trial.legs.leg import Slice
from trainperf.trial.queue import Queue

RUN = Run(("python", "train.py"), "/home/me", "train.py", guarded=("/home/me",))


class Machine:
    """A clock, the legs that `made` plans by name, and what `ran` on it, in order.

    Where a name has several plans, its processes take one after another.
    """

    def __init__(self, **made: dict[str, Any] | list[dict[str, Any]]) -> None:
        self.now = 0.0
        self.made = made
        self.ran: list[str] = []
        self.arrived_in_order: list[str] = []
        self.legs: list[SimulatedLeg] = []
        self.beside = 0  # the most legs that ran while one of them made its first steps

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        running = [leg for leg in self.legs if leg.runs]
        self.beside = max(self.beside, len(running) * any(leg.warms for leg in running))
        for leg in running:
            if leg.compiles:
                leg.compile_s -= seconds
            else:
                leg.spent_s += seconds

    def leg(
        self, name: str, run: Run | None, folder: Path | None, _: float = 1.0, slow: bool = False
    ) -> SimulatedLeg:
        plan = self.made.get(name or "base", {})
        made = SimulatedLeg(self, name, **(plan.pop(0) if isinstance(plan, list) else plan))
        made.slow, made.run = slow, run or RUN
        return made

    def clock(self, seconds: float = 600.0) -> Clock:
        return Clock(self.now + seconds, lambda: False, self.monotonic)

    def queue(
        self,
        patch: pytest.MonkeyPatch,
        slots: int = 10,
        step_s: float = 0.1,
        at_once: int = 3,
        spin: bool = False,
    ) -> Queue:
        """An engine whose legs are simulated on this machine."""
        patch.setattr(queue, "Leg", self.leg)
        for module in (queue, starting):
            patch.setattr(module, "time", self)
        patch.setattr(starting, "memory_is_short", lambda: False)
        patch.setattr(Bench, "guard", lambda _: nullcontext())
        costs = Costs(1.0, step_s, epoch_s=None, cores=2, slots=slots, at_once=at_once, spin=spin)
        return Queue(Bench(RUN, Path("runs"), costs, lambda text, share: None))


class SimulatedLeg:
    """Starts in `start_s` seconds of its own, then each step takes `step_s`, give or take."""

    def __init__(
        self,
        machine: Machine,
        name: str = "",
        step_s: float = 0.1,
        start_s: float = 1.0,
        work: float = 1.0,
        fails_at: int | None = None,
        noise: float = 0.0,
        warms_up_on_device: bool = False,
        imports_s: float = math.inf,
        epoch_steps: int = 20,
        opening_s: float = 0.0,
        compile_s: float = 0.0,
    ) -> None:
        self.machine, self.name, self.step_s, self.start_s = machine, name, step_s, start_s
        self.work_per_step, self.fails_at, self.noise = work, fails_at, noise
        self.has_device, self.may_pause = warms_up_on_device, not warms_up_on_device
        self.imports_s, self.epoch_steps, self.opening_s = imports_s, epoch_steps, opening_s
        self.compile_s = compile_s
        self.waits_for_device = self.ran_out = self.slow = False
        self.run, self.waits_every, self.settles = RUN, 1, True
        self.trained: tuple[()] = ()
        self.failure: LegFailed | None = None
        self.started_s = self.spent_s = self.slowest_s = 0.0
        self.ready_s: float | None = None
        self.runs = self.ended = False
        self.pauses = 0
        self.asked_steps: list[int] = []
        self.settled: list[int] = []
        self.limits: list[float] = []
        self._chance = random.Random(name)
        machine.legs.append(self)

    @property
    def alive(self) -> bool:
        return self.started_s > 0 and not self.failure and not self.ended

    @property
    def starting(self) -> bool:
        return self.ready_s is None and not self.failure

    @property
    def compiles(self) -> bool:
        return self.alive and self.compile_s > 0

    @property
    def warms(self) -> bool:
        return self.starting and self.spent_s >= self.imports_s

    def start(self, _: Any) -> None:
        self.started_s, self.runs = self.machine.now + 1e-9, True

    def go_on(self) -> None:
        self.runs = True

    def pause(self) -> None:
        self.runs = False
        self.pauses += 1

    def look(self) -> bool:
        return self.spent_s >= self.start_s

    def arrived(self) -> None:
        self.ready_s, self.runs = self.spent_s, False
        self.machine.arrived_in_order.append(self.name)

    def give_up(self, failure: LegFailed) -> None:
        self.failure = failure
        self.end()

    def end(self) -> None:
        self.ended, self.runs = True, False

    def run_slice(
        self, steps: int, settle: int, limit_s: float, asked: Any, holds: int = 0
    ) -> Slice | None:
        assert not any(leg.runs for leg in self.machine.legs), "nobody runs beside a slice"
        assert not self.ended
        self.machine.ran.append(self.name or "base")
        self.asked_steps.append(steps)
        self.settled.append(settle)
        self.limits.append(limit_s)
        if self.fails_at == len(self.asked_steps):
            raise LegFailed(f"{self.name or 'base'} breaks")
        epochs = steps // self.epoch_steps if holds else None
        seconds = steps * self.step_s * (1 + self._chance.uniform(-self.noise, self.noise))
        seconds += (epochs or 0) * self.opening_s
        self.machine.now += seconds
        return None if asked() else Slice(seconds, steps, steps * self.work_per_step, 0.0, epochs)


def candidate(name: str, **changes: Any) -> Candidate:
    return Candidate((name,), RUN, Equivalence.EXACT, None, 0, **changes)
