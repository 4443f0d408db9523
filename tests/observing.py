"""Run scripts natively and under observation, and look for what they left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil

from trainperf.model import Event, Recording, Run
from trainperf.run.launch import launch

MARK = "TRAINPERF_TEST_MARK"
"""A variable that every process of a test inherits, so that strays can be found."""
LONG_S = 60.0
"""Seconds that a thing of a moment may take beside busy neighbours."""
DYING_S = 10.0
"""A process that was killed is gone as soon as the kernel runs it once more."""


def script(folder: Path, source: str, name: str = "script.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


def native(
    command: tuple[str, ...], cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command as `launch` does, but unobserved; both streams come as stdout."""
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        timeout=2 * LONG_S,
        text=True,
    )


def observed(
    command: tuple[str, ...],
    cwd: Path,
    folder: Path,
    env: dict[str, str] | None = None,
    **settings: float,
) -> Recording:
    run = Run(command, str(cwd), command[-1], env=dict(env or {}), **settings)  # type: ignore[arg-type]
    return launch(run, folder)


def python(*words: str) -> tuple[str, ...]:
    return (sys.executable, *words)


def events(recording: Recording, kind: str) -> list[Event]:
    return [e for one in recording.events.values() for e in one if e["e"] == kind]


def strays(mark: str) -> list[psutil.Process]:
    """Living processes that carry `mark`, other than this one."""
    found = []
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if process.pid != os.getpid() and alive and process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def gone(mark: str, seconds: float = LONG_S) -> bool:
    """Whether every process with `mark` ends within so many seconds."""
    until = time.monotonic() + seconds
    while strays(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def kill_strays(mark: str) -> None:
    for process in strays(mark):
        process.kill()


def drop_inductor_cache() -> None:
    """Remove PyTorch's own cache from `TMPDIR`: it leaves one there, observed or not."""
    for folder in Path(os.environ["TMPDIR"]).glob("torchinductor_*"):
        shutil.rmtree(folder)


def patient() -> dict[str, str]:
    """The environment, with one OpenMP thread.

    Several spin where they wait for one another: beside busy neighbours a step of
    PyTorch takes ten times as long, and no two steps the same.
    """
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def is_left(path: Path) -> bool:
    """Whether a file is of a run: TensorFlow leaves the bytecode of what AutoGraph wrote itself."""
    return path.name != "__pycache__" or not all(
        one.name.startswith("__autograph_generated_file") for one in path.iterdir()
    )
