"""Commands of trainperf in processes of their own, waited for or not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from observing import LONG_S


def trainperf(cwd: Path, *words: str, env: dict[str, str] | None = None):
    command = (sys.executable, "-m", "trainperf", *words)
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {}), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def diagnose(cwd: Path, *words: str, env: dict[str, str] | None = None):
    return trainperf(
        cwd, "diagnose", "--no-trials", "--output-dir", str(cwd / "runs"), *words, env=env
    )


def started(cwd: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (
            sys.executable,
            "-m",
            "trainperf",
            "diagnose",
            "--no-trials",
            "--output-dir",
            "runs",
            *words,
        ),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(folder: Path, text: str, seconds: float = 2 * LONG_S) -> None:
    """Wait until some event of the run holds `text`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for path in folder.glob("runs/*/*"):
            if path.suffix in (".jsonl", ".log") and text in path.read_text(errors="replace"):
                return
        time.sleep(0.02)
    raise AssertionError(f"nothing said {text!r}")
