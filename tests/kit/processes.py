"""Programs in processes of their own: started, looked for, ended, tried again."""

from __future__ import annotations

import gc
import io
import itertools
import json
import os
import stat
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from trainperf.commands.cli import main
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


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder, and itself: mode, owner, mtime, content."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        if path.is_symlink():
            content = os.fsencode(os.readlink(path))
        owner = (status.st_uid, status.st_gid)
        name = str(path.relative_to(folder))
        seen[name] = (stat.filemode(status.st_mode), *owner, status.st_mtime_ns, content)
    return seen


def old(folder: Path) -> None:
    """Let everything in a folder have been there for long."""
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            os.utime(path, (1_600_000_000, 1_600_000_000))


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


def soon(true: Callable[[], bool], seconds: float = LONG_S) -> bool:
    """Whether something comes true; a thread that looks at stacks may hold our frame a while."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        gc.collect()
        time.sleep(0.02)
    return True


def gone(mark: str, seconds: float = LONG_S) -> bool:
    """Whether every process with `mark` ends within so many seconds."""
    return soon(lambda: not strays(mark), seconds)


def kill_strays(mark: str) -> None:
    for process in strays(mark):
        process.kill()


def patient() -> dict[str, str]:
    """The environment, with one OpenMP thread.

    Several spin where they wait for one another: beside busy neighbours a step of
    PyTorch takes ten times as long, and no two steps the same.
    """
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def is_left(path: Path) -> bool:
    """Whether a file is of a run, and not one that a framework leaves, observed or not.

    TensorFlow leaves the bytecode of what AutoGraph wrote, PyTorch its own cache.
    """
    if path.name == "__pycache__":
        names = [file.name for file in path.iterdir()]
        return not all(name.startswith("__autograph_generated_file") for name in names)
    return not path.name.startswith("torchinductor_")


RETRIED: Counter[str] = Counter()
"""Further tries by what they were of; `conftest.py` prints them at the end."""


def tries(of: str, most: int) -> Iterator[int]:
    """Give the numbers of up to `most` tries; the loop is left where one comes out right."""
    for attempt in range(most):
        if attempt:
            RETRIED[of] += 1
        yield attempt


def trainperf(
    cwd: Path, *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of trainperf in this process: another would take half a second to start."""
    stdout, stderr = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for name, value in {**(env or {}), "COLUMNS": "300"}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["trainperf", *words])
        patch.setattr(sys, "stdout", stdout)
        patch.setattr(sys, "stderr", stderr)
        try:
            status = main()
        except SystemExit as ended:
            status = ended.code
    texts = []
    for stream in (stdout, stderr):
        stream.seek(0)
        texts.append(stream.read())
    return subprocess.CompletedProcess(words, status or 0, *texts)


def diagnose(cwd: Path, *words: str, env: dict[str, str] | None = None):
    return trainperf(
        cwd, "diagnose", "--no-trials", "--output-dir", str(cwd / "runs"), *words, env=env
    )


def reported(
    folder: Path, *words: str, env: dict[str, str] | None = None, to: Path | None = None
) -> dict[str, Any]:
    """The JSON of a diagnosis in a folder, with its `stdout`, its `stderr` and its `run`'s folder.

    They are written to `to`, or to the folder itself.
    """
    file, runs = (to or folder) / "report.json", (to or folder) / "runs"
    done = subprocess.run(
        (sys.executable, "-m", "trainperf", "diagnose", "--json", str(file),
         "--output-dir", str(runs), *words),
        cwd=folder, env=patient() | {"COLUMNS": "100"} | (env or {}),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    run = str(max(runs.iterdir()))
    return found | {"stdout": done.stdout, "stderr": done.stderr, "run": run}


def started(cwd: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-m", "trainperf", "diagnose", "--output-dir", "runs", *words),
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def wait_for(folder: Path, text: str, seconds: float = 2 * LONG_S) -> None:
    """Wait until some event of the run holds `text`."""

    def said() -> bool:
        files = (path for path in folder.glob("runs/*/*") if path.suffix in (".jsonl", ".log"))
        return any(text in path.read_text(errors="replace") for path in files)

    assert soon(said, seconds), f"nothing said {text!r}"


_NUMBERS = itertools.count(1)


def unique() -> str:
    """A number of seconds that nobody else sleeps: this process's, and another each time."""
    return f"1{next(_NUMBERS):03d}.{os.getpid()}"


def sleeping(seconds: str) -> list[psutil.Process]:
    """Processes that sleep so long."""
    return [
        one
        for one in psutil.process_iter(["cmdline", "status"])
        if one.info["cmdline"] == ["sleep", seconds] and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


def ended(seconds: str) -> bool:
    """Whether nobody sleeps so long any more, after a while."""
    return soon(lambda: not sleeping(seconds))
