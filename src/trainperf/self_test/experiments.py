"""The experiments of the self-test: causes planted and diagnosed as in any script."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from trainperf import store
from trainperf.diagnose import Request, diagnose
from trainperf.errors import TrainperfError
from trainperf.machine.doctor.checks import Check
from trainperf.model import Diagnosis, Ending, Event, Run
from trainperf.patch.fix import fix
from trainperf.run.interpreter import interpreter_for
from trainperf.samplers.contention import busy_cores
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

MOST_S = 110.0
"""Seconds that all experiments may take."""
HIDDEN_S = 30.0
"""Seconds for the diagnosis of the hidden loader."""
AFTER_S = 15.0
"""Seconds kept behind the starvation, for a plain run of its repair."""
LEAST_S = 15.0
"""Seconds that a diagnosis gets in any case."""
LOOK_S = 0.5

Say = Callable[[str], None]


def self_test(
    say: Say,
    framework: str | None = None,
    most_s: float = MOST_S,
    edit: Edit = str,
    given: Path | None = None,
) -> SelfTest:
    """Plant a hidden loader and a starvation; measure each, and a script against itself.

    The truth is the plain script. `say` is told what is going on. With the `framework` named
    ("torch", "tensorflow"), else with one that is installed, by the Python that runs scripts here
    or the one that was `given`. All files are gone afterwards. Raises `TrainperfError` where there
    is nothing to test with, or it does not run.
    """
    python, _ = interpreter_for(None, given, Path.cwd(), os.environ)
    plants = beds.find(framework, python)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trainperf-self-test-") as folder:
        say(f"asking {plants.name} what it computes on")
        bed = beds.lay_out(plants, Path(folder), edit, python.path)
        test = _Test(bed, say, began + most_s)
        for name, experiment in (("hidden loader", test.hidden), ("starvation", test.starved)):
            test.others.append(busy_cores(LOOK_S))
            try:
                experiment()
            except TrainperfError as error:
                test.checks.append(Check(name, "problem", f"{error}"))
        return test.result(time.monotonic() - began)


@dataclass
class _Test:
    """The experiments, and what came of them; `others` are the cores that others kept busy, at
    each look, None where that is not told."""

    bed: Bed
    say: Say
    until: float
    others: list[float | None] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict)

    def hidden(self) -> None:
        """Diagnose a loader whose items cost the step nothing."""
        step_s = self._plain("a hidden loader", self.bed.hidden)
        found = self._diagnosed("hidden", self.bed.hidden, HIDDEN_S)
        self._figure("hidden loader: step", step_s, found.step_s, STEP, "plain run")
        about = [one.id for one in found.findings if one.category in ("input", "storage")]
        self.checks.append(nothing_to_gain(about, [one.fix for one in found.trials if one.kept]))

    def starved(self) -> None:
        """Diagnose a step that waits for its items, and apply the patch."""
        step_s = self._plain("a starvation", self.bed.starved)
        left_s = self.until - time.monotonic() - AFTER_S
        found = self._diagnosed("starved", self.bed.starved, left_s)
        self._figure("starvation: step", step_s, found.step_s, STEP, "plain run")
        if found.control is not None:
            name = "A/A: beside the starvation"
            self._figure(name, 1.0, found.control.speedup, SAME, "")
        name, stack = "starvation: repair", found.stack
        if stack is None:
            self.checks.append(nothing_kept(name, found.trials, found.trying))
            return
        store.save(found, self.bed.folder / store.DIAGNOSIS_FILE)
        fix(self.bed.folder / store.DIAGNOSIS_FILE, (), dry=False)
        patched_s = self._plain("the starvation, repaired", self.bed.starved)
        from_ = f"plain runs: {step_s * 1e3:.1f} and {patched_s * 1e3:.1f} ms"
        self._figure(name, step_s / patched_s, stack.speedup, REPAIR, from_)

    def result(self, took: float) -> SelfTest:
        """The figures and checks of all experiments."""
        seen = [one for one in self.diagnoses.values() if one.loop is not None]
        uses = [use for one in seen for use in one.evidence.use if use.phase == "real"]
        looks = [*self.others, *(use.others_cores for use in uses)]
        others = max((cores for cores in looks if cores is not None), default=None)
        machine = next((one.evidence.machine for one in self.diagnoses.values()), None)
        shared = [
            f"GPU {gpu.index}"
            for gpu in (machine.gpus if machine is not None and self.bed.gpu else ())
            if gpu.other_processes and (gpu.busy_before or 0.0) > STEP
        ]
        return SelfTest(
            self.bed.plants.name,
            self.bed.version,
            self.bed.gpu or "the CPU",
            tuple(replace(figure, others=others) for figure in self.figures),
            (*self.checks, neighbours(others, shared)),
            took,
            {name: kept_of(one) for name, one in self.diagnoses.items()},
        )

    def _plain(self, what: str, words: tuple[str, ...]) -> float:
        self.say(f"{what}: a plain run")
        return self.bed.plain(words)

    def _diagnosed(self, name: str, words: tuple[str, ...], budget_s: float) -> Diagnosis:
        self.say(f"{name}: the diagnosis")
        folder = self.bed.folder / name
        folder.mkdir()
        run = Run(
            command=self.bed.command(words),
            cwd=str(self.bed.folder),
            label=self.bed.plants.script,
            budget_s=max(LEAST_S, budget_s),
        )

        def on_event(event: Event) -> None:
            if event["e"] == "trial":
                self.say(f"{name}: {event['text']}")

        found, _ = diagnose(Request(run, folder, only=(self.bed.plants.fix,)), on_event)
        if found.ending is Ending.INTERRUPTED or (found.trying and found.trying.interrupted):
            raise KeyboardInterrupt
        if found.loop is None:
            why = found.output_tail.strip().splitlines()
            raise TrainperfError(
                f"its diagnosis saw no loop: {why[-1] if why else found.verdict.text}"
            )
        self.diagnoses[name] = found
        return found

    def _figure(
        self, name: str, expected: float, measured: float | None, allowed: float, from_: str
    ) -> None:
        unit: Literal["s", "×"] = "s" if allowed == STEP else "×"
        self.figures.append(Figure(name, unit, expected, measured, allowed, from_=from_))
