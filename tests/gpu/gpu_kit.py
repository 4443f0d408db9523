"""Plain runs, diagnoses, legs and rows of figures for the tests of the kit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kit.processes import patient
from trainperf.model import Equivalence, Leg, Run
from trainperf.trial.budget import WARM_UP_STEPS, Bench, Clock, Costs
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.leg import Leg as RunningLeg
from trainperf.trial.parity import read_losses
from trainperf.trial.planning import SEED
from trainperf.trial.queue import Queue

SCRIPTS = Path(__file__).parent / "scripts"
TESTS = Path(__file__).parents[1]
STEPS = 40
"""So many steps of a plain run are timed on a GPU at least, and three seconds of them."""
EMULATED_STEPS = 60
PLAIN_S = 10
"""A plain run is planned to take so long on a GPU: half of it is the start."""
LEGS = 4
BESIDE_NEIGHBOURS = 0.03
"""Real time on the emulated device is that of a machine of CI: bands are wider by so much."""


def on_both(seconds: float) -> Callable[[Any], Any]:
    """Run a test on a GPU, where it is planned to take so many seconds, and emulated at night."""
    places = [
        pytest.param("cuda", marks=pytest.mark.gpu(seconds=seconds)),
        pytest.param("emulated", marks=[pytest.mark.alone, pytest.mark.long]),
    ]
    return pytest.mark.parametrize("place", places, indirect=True)


def on_gpu(seconds: float) -> Callable[[Any], Any]:
    """Run a test on a GPU only: what it shows cannot be emulated."""
    cuda = pytest.param("cuda", marks=pytest.mark.gpu(seconds=seconds))
    return pytest.mark.parametrize("place", [cuda], indirect=True)


def case(seconds: float, *values: Any, name: str) -> Any:
    """One case of a test that runs on a GPU only, "place" the first of its parameters."""
    return pytest.param("cuda", *values, marks=pytest.mark.gpu(seconds=seconds), id=f"cuda-{name}")


def on_two(seconds: float) -> Callable[[Any], Any]:
    """Run a test where two GPUs are, and on two emulated ones."""
    places = [
        pytest.param("cuda", marks=[pytest.mark.gpu(seconds=seconds), pytest.mark.gpu2]),
        pytest.param("emulated", marks=[pytest.mark.alone, pytest.mark.long]),
    ]
    return pytest.mark.parametrize("place", places, indirect=True)


@dataclass
class Row:
    """One figure of the kit: what was expected, what was measured, how far it may be off."""

    test: str
    what: str
    expected: float
    measured: float | None
    allowed: float

    @property
    def off(self) -> float | None:
        return None if self.measured is None else self.measured / self.expected - 1

    @property
    def holds(self) -> bool:
        return self.off is not None and abs(self.off) <= self.allowed

    def values(self) -> dict[str, Any]:
        return {**asdict(self), "off": self.off, "holds": self.holds}

    def __str__(self) -> str:
        found = "not measured" if self.measured is None else f"{self.measured:.5g}"
        off = "" if self.off is None else f"{self.off * 100:+.2f} %, "
        said = "holds" if self.holds else "DOES NOT HOLD"
        return (
            f"{self.test}: {self.what}: expected {self.expected:.5g}, measured {found}, "
            f"{off}allowed ±{self.allowed * 100:.3g} %: {said}"
        )


ROWS: list[Row] = []
"""All figures of this session, for the summary."""


@dataclass
class Place:
    """Where the scripts of one test run: a folder, and a device, real or emulated."""

    name: str
    test: str
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def emulated(self) -> bool:
        return self.name == "emulated"

    @property
    def env(self) -> dict[str, str]:
        files = {"KIT_MODES": str(self.modes), "KIT_LOSSES": str(self.losses)}
        return {**patient(), **files, **self.environment}

    @property
    def modes(self) -> Path:
        """Where `waits.py` writes: of its own folder, trainperf shows it a copy."""
        return self.folder.parent / "modes.txt"

    @property
    def losses(self) -> Path:
        """Where `graphs.py` writes, outside of its folder as well."""
        return self.folder.parent / "losses.txt"

    def probe_little(self) -> None:
        """Leave the time of the budget to the trials: what this test shows takes no probes."""
        self.environment["TRAINPERF_EXTRA"] = "2s"

    def row(self, what: str, expected: float, measured: float | None, allowed: float) -> None:
        """Note a figure, and fail the test where it is too far off."""
        if self.emulated:
            allowed += BESIDE_NEIGHBOURS
        row = Row(self.test, what, expected, measured, allowed)
        ROWS.append(row)
        print(row)
        assert row.holds, str(row)

    def started(self, *command: str) -> subprocess.Popen[str]:
        """A process of the test, its output in one pipe."""
        return subprocess.Popen(
            command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, *command: str, limit: float = 240.0) -> str:
        """The output of a command, which must succeed."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=limit, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def plain(self, *words: str, steps: int | None = None) -> float:
        """Seconds a step of a script takes in a plain run, one wait at each end."""
        many = steps or (EMULATED_STEPS if self.emulated else STEPS)
        printed = self.run(sys.executable, *words, "--steps", str(many))
        lines = [line for line in printed.splitlines() if line.startswith('{"step_s"')]
        return float(json.loads(lines[-1])["step_s"])

    def diagnosed(self, *words: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
        """The report of `trainperf diagnose OPTIONS WORDS`; "run" is the name of its folder."""
        report = self.folder / "report.json"
        runs = self.folder / "runs"
        self.run(
            sys.executable, "-m", "trainperf", "diagnose", "-q", "--json", str(report),
            "--output-dir", str(runs), *options, *words,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(report.read_text())
        latest = max(runs.glob("*/diagnosis.json"), key=lambda one: one.stat().st_mtime)
        found["run"] = str(latest.parent)
        return found

    def fixed(self, report: dict[str, Any]) -> str:
        """Write what was kept into the scripts; the lines that `trainperf fix` printed."""
        return self.run(sys.executable, "-m", "trainperf", "fix", report["run"])

    def leg(self, *words: str) -> Run:
        """The run of a script as a leg of a trial."""
        return Run(
            command=(sys.executable, *words),
            cwd=str(self.folder),
            label=words[0],
            env={"PYTHONHASHSEED": "0", **self.environment, "OMP_NUM_THREADS": "1"},
            seed=SEED,
            leg=Leg(WARM_UP_STEPS),
        )

    def against_itself(
        self, *words: str, more: tuple[str, ...] = (), step_s: float, limit_s: float
    ) -> dict[str, float | None]:
        """Speed-ups by name: the script's against itself, and with `more` arguments or none."""
        run = self.leg(*words)
        changed = replace(run, command=(*run.command, *more))
        given = [
            Candidate((name,), each, Equivalence.EXACT, None, 0)
            for name, each in (("changed", changed), ("control", run))
        ]
        cores = float(os.cpu_count() or 1)
        costs = Costs(8.0, step_s, epoch_s=None, cores=cores, slots=LEGS, at_once=LEGS)
        folder = self.folder / f"legs-{step_s:g}"
        folder.mkdir()
        bench = Bench(run, folder, costs, lambda text, share: None)
        with Queue(bench) as engine:
            patience = limit_s * (4 if self.emulated else 1)  # it ends when all is decided
            clock = Clock(time.monotonic() + patience, lambda: False)
            found = engine.compare(given, clock)
        assert not any(measured.failure for measured in found), found
        return {
            measured.name: measured.ratio.speedup if measured.ratio is not None else None
            for measured in found
        }


def copied(folder: Path) -> Path:
    """All scripts of the kit in a folder of the test."""
    return Path(
        shutil.copytree(SCRIPTS, folder / "kit", ignore=shutil.ignore_patterns("__pycache__"))
    )


def kept(report: dict[str, Any], fix: str) -> dict[str, Any]:
    """The trial of a fix, which must have been kept."""
    found = [one for one in report["trials"] if one["fix"] == fix and one["kept"]]
    assert found, [report["verdict"], report["trials"], report["trying"]]
    return dict(found[0])


def nothing_about_input(report: dict[str, Any]) -> None:
    """Fail where a report blames the input, or keeps something for it."""
    found = [one["id"] for one in report["findings"] if one["category"] in ("input", "storage")]
    assert not found, report["findings"]
    assert report["verdict"]["bottleneck"] not in ("input", "storage"), report["verdict"]
    assert not [one for one in report["trials"] if one["kept"]], report["trials"]


def read_losses_of(leg: RunningLeg) -> dict[int, float]:
    """The losses of a leg by the number of its weight update."""
    found = read_losses(leg.trained)
    assert found is not None, leg.trained
    return found.values


def memory_used() -> int:
    """Bytes in use on the first visible GPU, all processes together."""
    import torch

    free, total = torch.cuda.mem_get_info(0)
    return int(total - free)


def segments() -> set[str]:
    """The segments of shared memory there are."""
    return set(os.listdir("/dev/shm"))


@contextmanager
def most_memory(every_s: float = 0.1) -> Iterator[list[int]]:
    """The most memory that was in use on the card meanwhile, as the list's one entry."""
    import threading

    most, over = [memory_used()], threading.Event()

    def watch() -> None:
        while not over.wait(every_s):
            most[0] = max(most[0], memory_used())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def drop_caches() -> None:
    """Remove what PyTorch's compilers left in `TMPDIR`."""
    for folder in Path(os.environ["TMPDIR"]).glob("triton*"):
        shutil.rmtree(folder, ignore_errors=True)
