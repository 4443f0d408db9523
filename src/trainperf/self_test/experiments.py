"""The experiments of the self-test: causes planted and diagnosed as in any script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from trainperf import store
from trainperf.diagnose import Request, diagnose
from trainperf.errors import TrainperfError
from trainperf.machine.doctor.checks import Check
from trainperf.model import Diagnosis, Ending, Event, Run
from trainperf.patch.fix import fix
from trainperf.run.interpreter import Interpreter, interpreter_for
from trainperf.samplers.contention import busy_cores
from trainperf.self_test.judging import (
    REPAIR,
    SAME,
    STEP,
    Figure,
    SelfTest,
    nothing_kept,
)

STEPS = 60
"""So many steps of a plain run are timed, with a wait for the device at each end."""
LIMIT_S = 60.0
"""A plain run that takes longer hangs, or its machine is too busy to say anything."""
MOST_S = 110.0
"""Seconds that all experiments may take."""
HIDDEN_S = 30.0
"""Seconds for the diagnosis of the hidden loader."""
AFTER_S = 15.0
"""Seconds kept behind the starvation, for a plain run of its repair."""
LEAST_S = 15.0
"""Seconds that a diagnosis gets in any case."""
LOOK_S = 0.5

Edit = Callable[[str], str]
"""Changes the source of a planted script: a test puts an emulated device into it."""
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
    plants = find(framework, python)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trainperf-self-test-") as folder:
        say(f"asking {plants.name} what it computes on")
        planted = lay_out(plants, Path(folder), edit, python.path)
        test = _Test(planted, say, began + most_s)
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

    planted: Planted
    say: Say
    until: float
    others: list[float | None] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict)

    def hidden(self) -> None:
        """Diagnose a loader whose items cost the step nothing."""
        found, _ = self._diagnosed("hidden", "hidden loader", HIDDEN_S)
        inputs = [f.id for f in found.findings if f.category in ("input", "storage")]
        kept = [trial.fix for trial in found.trials if trial.kept]
        wrong = ", ".join([*inputs, *(f"{fix} kept" for fix in kept)])
        text = f"expected none about the input, found {wrong or 'none'}"
        self.checks.append(Check("hidden loader: findings", "problem" if wrong else "ok", text))

    def starved(self) -> None:
        """Diagnose a step that waits for its items, and apply the patch."""
        found, step_s = self._diagnosed("starved", "starvation")
        if found.control is not None:
            self._figure("A/A: beside the starvation", 1.0, found.control.speedup, SAME, "")
        name, stack = "starvation: repair", found.stack
        if stack is None:
            self.checks.append(nothing_kept(name, found.trials, found.trying))
            return
        store.save(found, self.planted.folder / store.DIAGNOSIS_FILE)
        fix(self.planted.folder / store.DIAGNOSIS_FILE, (), dry=False)
        self.say("the starvation, repaired: a plain run")
        patched_s = self.planted.plain("starved")
        from_ = f"plain runs: {step_s * 1e3:.1f} and {patched_s * 1e3:.1f} ms"
        self._figure(name, step_s / patched_s, stack.speedup, REPAIR, from_)

    def result(self, took: float) -> SelfTest:
        """The figures and checks of all experiments."""
        found = [diagnosis.evidence for diagnosis in self.diagnoses.values()]
        uses = [use.others_cores for seen in found for use in seen.use if use.phase == "real"]
        looks = [cores for cores in (*self.others, *uses) if cores is not None]
        others = max(looks, default=None)
        told = f"others took {others:.1f} cores at most" if looks else "it is not told here"
        return SelfTest(
            self.planted.plants.name,
            self.planted.version,
            self.planted.gpu or "the CPU",
            tuple(replace(figure, others=others) for figure in self.figures),
            (*self.checks, Check("neighbours", "ok", told)),
            took,
            self.diagnoses,
        )

    def _diagnosed(
        self, name: str, what: str, most_s: float | None = None
    ) -> tuple[Diagnosis, float]:
        """The diagnosis of a planted script, and the seconds of a step of a plain run."""
        self.say(f"a {what}: a plain run")
        step_s = self.planted.plain(name)
        self.say(f"{name}: the diagnosis")
        folder = self.planted.folder / name
        folder.mkdir()
        run = Run(
            command=self.planted.command(name),
            cwd=str(self.planted.folder),
            label=self.planted.plants.script,
            budget_s=max(LEAST_S, most_s or self.until - time.monotonic() - AFTER_S),
        )

        def on_event(event: Event) -> None:
            if event["e"] == "trial":
                self.say(f"{name}: {event['text']}")

        found, _ = diagnose(Request(run, folder, only=(self.planted.plants.fix,)), on_event)
        if found.ending is Ending.INTERRUPTED or (found.trying and found.trying.interrupted):
            raise KeyboardInterrupt
        if found.loop is None:
            why = [*found.output_tail.strip().splitlines(), found.verdict.text][-1]
            raise TrainperfError(f"its diagnosis saw no loop: {why}")
        self.diagnoses[name] = found
        self._figure(f"{what}: step", step_s, found.step_s, STEP, "plain run")
        return found, step_s

    def _figure(
        self, name: str, expected: float, measured: float | None, allowed: float, from_: str
    ) -> None:
        unit: Literal["s", "×"] = "s" if allowed == STEP else "×"
        self.figures.append(Figure(name, unit, expected, measured, allowed, from_=from_))


# ------------------------------------------------------------------- what is planted


@dataclass(frozen=True)
class Plants:
    """How a framework's script is called for each plant, and the fix that repairs it."""

    module: str
    name: str
    fix: str
    on_cpu: dict[str, str]
    on_gpu: dict[str, str]

    @property
    def script(self) -> str:
        """The file that it is planted in."""
        return f"{self.module}_planted.py"


# On a GPU no worker hides the items: the host makes one while the device still computes.
# tf.data makes one item ahead by itself, so that only items slower than a step are seen.
_CPU = {"hidden": "--item 0.035 --step 0.05 --workers 1", "starved": "--item 0.035 --step 0.05"}
_GPU = {"hidden": "--item 0.045 --step 0.05", "starved": "--item 0.05 --step 0.03"}
_TF = {"hidden": "--item 0.035 --step 0.05 --ahead 1", "starved": "--item 0.045 --step 0.03"}
FRAMEWORKS = (
    Plants("torch", "PyTorch", "torch_workers", _CPU, _GPU),
    Plants("tensorflow", "TensorFlow", "tf_py_function", _TF, _TF),
)


@dataclass(frozen=True)
class Planted:
    """A folder with the script, and what its framework computes on; `gpu` is "" for a CPU.

    `per_second` is how much of the GPU's planted work passes in a second.
    """

    plants: Plants
    folder: Path
    version: str
    gpu: str
    per_second: float
    python: str = sys.executable

    def command(self, plant: str) -> tuple[str, ...]:
        """The command that starts the script with a loader "hidden" behind its step, or "starved"
        of items."""
        words = (self.plants.on_gpu if self.gpu else self.plants.on_cpu)[plant].split()
        work = ("--per-second", f"{self.per_second:.0f}") if self.gpu else ()
        return (self.python, self.plants.script, *words, *work)

    def plain(self, plant: str) -> float:
        """Seconds a step takes where nothing observes it. Raises `TrainperfError`."""
        command = (*self.command(plant), "--steps", str(STEPS))
        return float(_ask(command, self.folder)["step_s"])


def find(name: str | None, python: Interpreter) -> Plants:
    """The framework to test with: the one named, else PyTorch before TensorFlow.

    Raises `TrainperfError` where the Python that is to run it has none.
    """
    wanted = [plants for plants in FRAMEWORKS if name in (None, plants.module)]
    found = next((plants for plants in wanted if python.has(plants.module)), None)
    if found is None:
        raise TrainperfError(
            f"{python.path} has no {' or '.join(plants.name for plants in wanted)} to test with",
            "activate the environment of your training, or name it: --python .venv",
        )
    return found


def lay_out(
    plants: Plants, folder: Path, edit: Edit = str, python: str = sys.executable
) -> Planted:
    """Write the script into `folder`, as `edit` leaves it, and find out what it computes on.

    Raises `TrainperfError` where the framework does not run.
    """
    packaged = resources.files("trainperf") / "data" / "self_test" / plants.script
    text = edit(packaged.read_text(encoding="utf-8"))
    (folder / plants.script).write_text(text, encoding="utf-8")
    said = _ask((python, plants.script, "--calibrate"), folder)
    version, gpu = str(said["version"]), str(said["gpu"])
    return Planted(plants, folder, version, gpu, float(said["per_second"]), python)


def _ask(command: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Run a script that prints one line of JSON last. Raises `TrainperfError`."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        text = f"the planted script did not end within {LIMIT_S:.0f} s"
        raise TrainperfError(text, "is the machine very busy?") from error
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        why = [f"exit status {done.returncode}", *filter(str.strip, done.stderr.splitlines())][-1]
        text = f"the planted script failed: {why.strip()}"
        raise TrainperfError(text, "trainperf doctor says what does not fit together")
    found: dict[str, Any] = json.loads(lines[-1])
    return found
