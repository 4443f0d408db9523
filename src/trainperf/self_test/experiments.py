"""The experiments of the self-test: causes planted and diagnosed as in any script."""

from __future__ import annotations

import math
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from trainperf import store
from trainperf.diagnose import Request, diagnose
from trainperf.errors import TrainperfError
from trainperf.machine.doctor.checks import Check
from trainperf.model import Control, Diagnosis, Ending, Equivalence, Event, Leg, Ratio, Run
from trainperf.patch.fix import fix
from trainperf.run.interpreter import interpreter_for
from trainperf.run.spawn import interruptible
from trainperf.samplers.contention import NANO, schedstat
from trainperf.self_test import bed as beds
from trainperf.self_test.bed import Bed, Edit
from trainperf.self_test.judging import (
    REPAIR,
    SAME,
    STEP,
    Figure,
    SelfTest,
    kept_of,
    neighbours,
    nothing_kept,
    nothing_to_gain,
)
from trainperf.trial.budget import LATE, NO_SLICE, Bench, Clock, Costs
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.leg import LegFailed
from trainperf.trial.planning import SEED, WARM_UP_STEPS
from trainperf.trial.queue import Queue

MOST_S = 110.0
"""Seconds that all experiments may take."""
HIDDEN_S = 30.0
"""Seconds for the diagnosis of the hidden loader."""
AFTER_S = 15.0
"""Seconds kept behind the starvation: for a plain run of its repair, and some for the A/A."""
LEAST_S = 15.0
"""Seconds that a diagnosis gets in any case."""
LEGS = 3
"""The script, its control, and the one with a faster loader."""
TURNS = "taking turns"
"""How the progress of trials begins once their legs have warmed up."""

Say = Callable[[str], None]


def self_test(
    say: Say,
    framework: str | None = None,
    most_s: float = MOST_S,
    edit: Edit = str,
    given: Path | None = None,
) -> SelfTest:
    """Plant a hidden loader, a script against itself and a starvation; measure each.

    The truth is the plain script. `say` is told what is going on. With the `framework` named
    ("torch", "tensorflow"), else with one that is installed, by the Python that runs scripts here
    or the one that was `given`. All files are gone afterwards. Raises `TrainperfError` where there
    is nothing to test with, or it does not run.
    """
    python, _ = interpreter_for(None, given, Path.cwd(), os.environ)
    plants = beds.find(framework, python)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trainperf-self-test-") as folder, ExitStack() as stack:
        say(f"asking {plants.name} what it computes on")
        bed = beds.lay_out(plants, Path(folder), edit, python.path)
        waiting = stack.enter_context(Waiting())
        test = _Test(bed, say, began + most_s, waiting)
        for name, experiment in (
            ("hidden loader", test.hidden),
            ("starvation", test.starved),
            ("A/A", test.same),
        ):
            try:
                experiment()
            except (TrainperfError, LegFailed) as error:
                late = str(error) in (LATE, NO_SLICE)
                test.checks.append(Check(name, "unknown" if late else "problem", f"{error}"))
        return test.result(time.monotonic() - began)


@dataclass(frozen=True)
class _Diagnosed:
    """A diagnosis, and the shares by which waiting for a core made its steps longer."""

    found: Diagnosis
    in_steps: float | None
    in_turns: float | None


@dataclass
class _Moments:
    """When steps were first timed, and last; when legs took turns; None where they were not."""

    real: float | None = None
    after: float | None = None
    turns: float | None = None

    def note(self, event: Event) -> None:
        """Look at an event of a diagnosis as it comes."""
        now = time.monotonic()
        if event["e"] == "trial" and event["text"].startswith(TURNS):
            self.turns = self.turns or now
        if event["e"] == "phase" and event["p"] == "real":
            self.real = self.real or now
        if event["e"] == "phase" and event["p"] in ("real", "resident", "input"):
            self.after = now


@dataclass
class _Test:
    bed: Bed
    say: Say
    until: float
    waiting: Waiting
    figures: list[Figure] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict)
    hidden_s: float = 0.05

    def hidden(self) -> None:
        """Diagnose a loader whose items cost the step nothing."""
        step_s, waited = self._plain("a hidden loader", self.bed.hidden)
        self.hidden_s = step_s
        diagnosed = self._diagnosed("hidden", self.bed.hidden, HIDDEN_S)
        found = diagnosed.found
        self._step("hidden loader: step", step_s, found, _in_all(waited, diagnosed.in_steps))
        about = [one.id for one in found.findings if one.category in ("input", "storage")]
        self.checks.append(nothing_to_gain(about, [one.fix for one in found.trials if one.kept]))

    def starved(self) -> None:
        """Diagnose a step that waits for its items, and apply the patch."""
        step_s, waited = self._plain("a starvation", self.bed.starved)
        diagnosed = self._diagnosed("starved", self.bed.starved, self._left() - AFTER_S)
        found, in_turns = diagnosed.found, diagnosed.in_turns
        self._step("starvation: step", step_s, found, _in_all(waited, diagnosed.in_steps))
        if found.control is not None:
            self._against_itself("A/A: beside the starvation", found.control, "", in_turns)
        name, stack = "starvation: repair", found.stack
        if stack is None:
            self.checks.append(nothing_kept(name, found.trials, found.trying))
            return
        store.save(found, self.bed.folder / store.DIAGNOSIS_FILE)
        fix(self.bed.folder / store.DIAGNOSIS_FILE, (), dry=False)
        patched_s, again = self._plain("the starvation, repaired", self.bed.starved)
        off = _in_all(waited, in_turns, again)
        expected = step_s / patched_s
        from_ = f"plain runs: {step_s * 1e3:.1f} and {patched_s * 1e3:.1f} ms"
        self.figures.append(Figure(name, "×", expected, stack.speedup, REPAIR, off, from_))

    def same(self) -> None:
        """Let that script take turns with itself, and with one whose loader is faster."""
        self.say("the same script against itself")
        run = Run(
            command=self.bed.command(self.bed.hidden),
            cwd=str(self.bed.folder),
            label=self.bed.plants.script,
            env={"PYTHONHASHSEED": "0"},
            seed=SEED,
            leg=Leg(WARM_UP_STEPS),
        )
        faster = replace(run, command=(*run.command, *self.bed.plants.more))
        tried = Candidate(("faster loader",), faster, Equivalence.EXACT, None, 0)
        costs = Costs(5.0, self.hidden_s, epoch_s=None, cores=2.0, slots=LEGS, at_once=LEGS)
        folder = self.bed.folder / "legs"
        folder.mkdir()
        turns_from: list[float] = []

        def progress(text: str, done: float | None) -> None:
            self.say(text)
            if text.startswith(TURNS) and not turns_from:
                turns_from.append(time.monotonic())

        bench = Bench(run, folder, costs, progress)
        with interruptible() as asked, Queue(bench) as engine:
            (measured,) = engine.compare([tried], Clock(self.until, asked))
            baseline = engine.baseline()
        if asked():
            raise KeyboardInterrupt
        waited = self._waited(turns_from[0] if turns_from else None)
        self._against_itself("A/A: beside a hidden loader", baseline.control, "", waited)
        name = "hidden loader: made faster"
        self._against_itself(name, measured.ratio, measured.failure, waited)

    def result(self, took: float) -> SelfTest:
        """The figures and checks of all experiments."""
        seen = [one for one in self.diagnoses.values() if one.loop is not None]
        uses = [use for one in seen for use in one.evidence.use if use.phase == "real"]
        others = [use.others_cores for use in uses if use.others_cores is not None]
        machine = next((one.evidence.machine for one in self.diagnoses.values()), None)
        shared = [
            f"GPU {gpu.index}"
            for gpu in (machine.gpus if machine is not None and self.bed.gpu else ())
            if gpu.other_processes and (gpu.busy_before or 0.0) > STEP
        ]
        cores = machine.cores if machine is not None else 0.0
        self.checks.append(neighbours(max(others, default=None), cores, shared))
        return SelfTest(
            self.bed.plants.name,
            self.bed.version,
            self.bed.gpu or "the CPU",
            tuple(self.figures),
            tuple(self.checks),
            took,
            {name: kept_of(one) for name, one in self.diagnoses.items()},
        )

    def _left(self) -> float:
        return self.until - time.monotonic()

    def _plain(self, what: str, words: tuple[str, ...]) -> tuple[float, float | None]:
        self.say(f"{what}: a plain run")
        step_s = self.bed.plain(words)
        ended = time.monotonic()
        return step_s, self.waiting.share(ended - beds.STEPS * step_s)

    def _diagnosed(self, name: str, words: tuple[str, ...], budget_s: float) -> _Diagnosed:
        """The diagnosis of the script, and the shares waited for a core meanwhile."""
        self.say(f"{name}: the diagnosis")
        folder = self.bed.folder / name
        folder.mkdir()
        run = Run(
            command=self.bed.command(words),
            cwd=str(self.bed.folder),
            label=self.bed.plants.script,
            budget_s=max(LEAST_S, budget_s),
        )
        at = _Moments()

        def on_event(event: Event) -> None:
            at.note(event)
            if event["e"] == "trial":
                self.say(f"{name}: {event['text']}")

        found, _ = diagnose(Request(run, folder, only=(self.bed.plants.fix,)), on_event)
        if found.ending is Ending.INTERRUPTED or (found.trying and found.trying.interrupted):
            raise KeyboardInterrupt
        if found.loop is None:
            why = found.output_tail.strip().splitlines()
            said = why[-1] if why else found.verdict.text
            raise TrainperfError(f"its diagnosis saw no loop: {said}")
        self.diagnoses[name] = found
        return _Diagnosed(found, self._waited(at.real, at.after), self._waited(at.turns))

    def _waited(self, since: float | None, until: float | None = math.inf) -> float | None:
        """The share of the time waited for a core; None where either moment did not come."""
        return None if since is None or until is None else self.waiting.share(since, until)

    def _step(self, name: str, expected: float, found: Diagnosis, waited: float | None) -> None:
        measured = found.step_s
        self.figures.append(Figure(name, "s", expected, measured, STEP, waited, "plain run"))

    def _against_itself(
        self, name: str, found: Ratio | Control | None, failure: str, waited: float | None
    ) -> None:
        measured = found.speedup if found is not None else None
        failure = "" if failure == LATE else failure
        self.figures.append(Figure(name, "×", 1.0, measured, SAME, waited, reason=failure))


def _in_all(*shares: float | None) -> float | None:
    """The sum of shares, None where any of them is not known."""
    known = [one for one in shares if one is not None]
    return sum(known) if len(known) == len(shares) else None


EVERY_S = 0.25


class Waiting:
    """Reads what the scheduler counts (`/proc/PID/schedstat`) while it is open.

    Of each process that this one started, and of its main thread alone: that is where a step
    runs, and what it waits for a core makes the step longer.
    """

    def __init__(self) -> None:
        own = schedstat("/proc/self")
        self._counted = own is not None and own[0] > 0
        self._seen: list[tuple[float, float]] = [(time.monotonic(), 0.0)]
        self._last: dict[int, int] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trainperf-waiting", daemon=True)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closed.set()
        self._thread.join()

    def share(self, since: float, until: float = math.inf) -> float | None:
        """Seconds waited for each second from `since` to `until` (`time.monotonic()`).

        None where the kernel does not count it, or it was read no two times meanwhile.
        """
        inside = [one for one in self._seen if since <= one[0] <= until]
        if not self._counted or len(inside) < 2:
            return None
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])

    def _run(self) -> None:
        while not self._closed.wait(EVERY_S):
            self._read()

    def _read(self) -> None:
        try:
            children = psutil.Process().children()
        except psutil.Error:
            return
        counts = {child.pid: schedstat(f"/proc/{child.pid}") for child in children}
        found = {pid: one[1] for pid, one in counts.items() if one is not None}
        more = sum(max(0, now - self._last.get(pid, now)) for pid, now in found.items())
        self._last = found
        self._seen.append((time.monotonic(), self._seen[-1][1] + more * NANO))
