"""Diagnose a script, or drive its trials without a diagnosis: what `trials_*.py` share."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from _runs import machine

from trainperf.model import Equivalence, Leg, Run
from trainperf.trial.budget import WARM_UP_STEPS, Bench, Clock, Costs
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.environment import HUGE_PAGES, available
from trainperf.trial.planning import SEED

EXAMPLES = Path(__file__).parent.parent / "examples"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
MOST_LEGS = 10
START_S = 15.0
"""Seconds for a leg to warm up: one that does not arrive is given up only then."""


def parser(doc: str, runs: int = 0, of_what: str = "") -> argparse.ArgumentParser:
    """The command line of a benchmark: its own docstring, and `--runs` if there are any."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if runs:
        made.add_argument("--runs", type=int, default=runs, help=f"{of_what} [default: {runs}]")
    return made


def head() -> None:
    """Print the machine, before anything is started."""
    print(machine(), flush=True)


def foot(began: float) -> None:
    """Print what the machine did meanwhile: its load now, and the time since `began`."""
    print(
        f"load at the end {os.getloadavg()[0]:.2f} on {psutil.cpu_count()} cores (our own runs "
        f"among it); {time.monotonic() - began:.0f} s in all"
    )


def leg_of(script: Path) -> Run:
    """The run of `script` as a leg, seeded as trials seed it."""
    return Run(
        command=(sys.executable, str(script)),
        cwd=str(script.parent),
        label=script.name,
        env={**QUIET, "PYTHONHASHSEED": "0", **(HUGE_PAGES if available() else {})},
        seed=SEED,
        leg=Leg(WARM_UP_STEPS),
    )


def candidate(base: Run, script: Path, source: str, fixes: tuple[str, ...]) -> Candidate:
    """A candidate that runs `source` in place of `script`."""
    run = replace(base, sources={str(script): source.encode()})
    return Candidate(fixes, run, Equivalence.EXACT, None, 0)


def clock(seconds: float) -> Clock:
    """A clock on which so much time is left."""
    return Clock(time.monotonic() + seconds, lambda: False)


def bench(run: Run, folder: Path, step_s: float) -> Bench:
    """The means of trials of `run`; `step_s` is a guess, from which slices adapt."""
    cores = float(psutil.cpu_count() or 1)
    costs = Costs(
        START_S, step_s, epoch_s=None, cores=cores, slots=MOST_LEGS, at_once=int(cores) + 1
    )
    return Bench(run, folder, costs, lambda text, share: None)


def diagnosis(script: Path, folder: Path, *options: str) -> dict[str, Any]:
    """Run `trainperf diagnose` in the folder of `script`; return its report.

    Leaves `report.json` and, if there is one, `fixes.diff` in `folder`. Ends the
    benchmark if the diagnosis failed.
    """
    report = folder / "report.json"
    kept = ("--output-dir", str(folder / "runs"), "--json", str(report))
    patch = ("--patch", str(folder / "fixes.diff"))
    ended = subprocess.run(
        [sys.executable, "-m", "trainperf", "diagnose", *kept, *patch, *options, script.name],
        cwd=script.parent,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
    )
    if not report.exists():
        raise SystemExit(f"{script.name} was not diagnosed: {ended.stderr[-2000:]}")
    made: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return made


def why_nothing(report: dict[str, Any]) -> str:
    """The outcome of each trial of a report in which nothing was kept."""
    found = [f"{one['fix']}: {one['outcome']} {one['reason']}".strip() for one in report["trials"]]
    if not found and report["trying"] is not None:
        found = [report["trying"]["reason"]]
    return "nothing was kept: " + ("; ".join(found) or "nothing was tried")


def verdict(met: bool) -> str:
    """Whether a target is met."""
    return "met" if met else "MISSED"
