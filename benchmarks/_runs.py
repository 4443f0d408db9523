"""Run a workload unobserved or observed, and read the steps that it stamped itself.

On Linux `time.perf_counter`, which the workloads use, and `time.monotonic`, which
trainperf uses, are one clock, so the stamps can be laid beside the phases.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from trainperf.machine.host import cpu_model
from trainperf.model import Event, Recording, Run
from trainperf.run.launch import launch

SCRIPTS = Path(__file__).parent / "scripts"
ROOM = 1_000_000
WARM_UP_S = 1.5
"""The first steps of an unobserved run that are left out."""


@dataclass(frozen=True)
class Workload:
    """A script of this folder with its arguments, and the name it goes by."""

    name: str
    script: str
    arguments: tuple[str, ...]


SHORT = ("--width", "352", "--batch", "128")
LONG = ("--width", "1024", "--batch", "160")
EMPTY = ("--width", "8", "--batch", "8")
EMPTY_FIT = Workload("fit", "fit.py", EMPTY)
EMPTY_LOOP = Workload("own loop", "loop.py", EMPTY)
SHORT_FIT = Workload("fit, short step", "fit.py", SHORT)
LONG_FIT = Workload("fit, long step", "fit.py", LONG)
SHORT_LOOP = Workload("own loop, short step", "loop.py", SHORT)
LONG_LOOP = Workload("own loop, long step", "loop.py", LONG)
STARVED_FIT = Workload("fit, input-bound", "fit.py", ("--width", "352", "--work", "200"))
EPOCHS_FIT = Workload(
    "fit, many epochs", "fit.py", ("--width", "352", "--work", "200", "--epoch", "50")
)
"""Short is about 1.4 ms and long about 10 ms on one core of an AMD EPYC."""


@dataclass(frozen=True)
class Native:
    """An unobserved run: seconds of each step after warm-up, and to the first step's end."""

    steps: np.ndarray
    to_first_step_s: float


@dataclass(frozen=True)
class Observed:
    """An observed run: its recording, and the steps stamped within its real blocks."""

    recording: Recording
    steps: np.ndarray


def native(workload: Workload, seconds: float) -> Native:
    """Run `workload` as its user would, for `seconds` after its first step."""
    with tempfile.TemporaryDirectory() as folder:
        command, file = command_of(workload, Path(folder), seconds + WARM_UP_S)
        began = time.perf_counter()
        subprocess.run(command, check=True, env=_quiet(), capture_output=True)
        stamps = _stamps(file)
    usual = stamps[stamps > stamps[0] + WARM_UP_S]
    return Native(np.diff(usual), float(stamps[0]) - began)


def observed(workload: Workload, measure_s: float = 8.0) -> Observed:
    """Run `workload` under observation; only the loop's phases, no stages and probes."""
    with tempfile.TemporaryDirectory() as folder:
        command, file = command_of(workload, Path(folder), 120.0)
        run = Run(
            command=command,
            cwd=folder,
            label=workload.script,
            steps=None,
            measure_s=measure_s,
            extra_s=0.1,
            stall_s=120.0,
            budget_s=120.0,
            env=_quiet_only(),
        )
        recording = launch(run, Path(folder) / "run")
        stamps = _stamps(file)
    return Observed(recording, _real_steps(recording, stamps))


def command_of(workload: Workload, folder: Path, seconds: float) -> tuple[tuple[str, ...], Path]:
    """The command of a run that stops itself after `seconds`, and the file of its stamps."""
    file = folder / "stamps"
    np.zeros(ROOM).tofile(file)
    script = str(SCRIPTS / workload.script)
    own = ("--seconds", str(seconds), "--stamps", str(file))
    return (sys.executable, script, *workload.arguments, *own), file


def _stamps(file: Path) -> np.ndarray:
    stamps = np.fromfile(file)
    return stamps[stamps > 0]


def _real_steps(recording: Recording, stamps: np.ndarray) -> np.ndarray:
    """Durations between stamps that stand within one and the same real block."""
    found = []
    for events in recording.events.values():
        for begin, end in _blocks(events):
            found.append(np.diff(stamps[(stamps >= begin) & (stamps <= end)]))
    if not found:
        raise SystemExit(f"no real block was recorded: {recording.output_tail[-2000:]}")
    return np.concatenate(found)


def _blocks(events: tuple[Event, ...]) -> list[tuple[float, float]]:
    spans: dict[int, list[float]] = {}
    for event in events:
        if event["e"] == "step" and event["p"] == "real":
            spans.setdefault(event["b"], []).extend((event["s"], event["t"]))
    return [(min(times), max(times)) for times in spans.values()]


def _quiet() -> dict[str, str]:
    return {**os.environ, **_quiet_only()}


def _quiet_only() -> dict[str, str]:
    return {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}


def machine() -> str:
    """One line on the machine, for the head of every benchmark's output."""
    load = os.getloadavg()[0]
    return (
        f"{cpu_model()}, {psutil.cpu_count()} cores, Python {platform.python_version()}, "
        f"load before the start {load:.2f}"
    )
