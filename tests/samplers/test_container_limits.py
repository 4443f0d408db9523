"""Limits that are really set around a process; skipped where the kernel permits none."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainperf.samplers.levels import Level, levels


@contextlib.contextmanager
def child_group(controller: str, **files: object) -> Iterator[Path]:
    """A control group below the one of this process, with `files` written; gone afterwards.

    Only below the top of what is seen: a group further down belongs to who made it. Skips
    the test where the kernel permits none. `cpu_cfs_quota_us=5` writes "cpu.cfs_quota_us"
    where cgroups are of version 1, `cpu_max="5 100"` "cpu.max" where they are of version 2.
    """
    above = _top(controller)
    folder = above.folder / f"trainperf-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no child group of {controller} can be made: {error}")
    try:
        named = {folder / name.replace("_", ".", 1): value for name, value in files.items()}
        there = {file: value for file, value in named.items() if file.exists()}
        if files and not there:
            pytest.skip(f"a child group of {controller} has no limits: not delegated to it")
        for file, value in there.items():
            try:
                file.write_text(f"{value}\n")
            except OSError as error:
                pytest.skip(f"{file.name} of a child group cannot be set: {error}")
        yield folder
    finally:
        _remove(folder)


def _top(controller: str) -> Level:
    for level in levels(Path("/"), controller):
        has = (level.folder / "cgroup.controllers").read_text() if level.version == 2 else ""
        if level.version == 2 and controller not in has.split():
            continue
        place = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line for line in place if _names(line, controller, level.version))
        if own.split(":", 2)[2] != "/":
            pytest.skip(f"this process's {controller} group is not the top of what is seen")
        return level
    pytest.skip(f"no {controller} groups are mounted")


def _names(line: str, controller: str, version: int) -> bool:
    controllers = line.split(":", 2)[1]
    return controllers == "" if version == 2 else controller in controllers.split(",")


def _remove(folder: Path) -> None:
    until = time.monotonic() + 5
    while True:
        try:
            folder.rmdir()
            return
        except OSError:  # the last process is not gone yet
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def run_in(group: Path, code: str) -> Any:
    """Run `code` in a new process that is in `group`; return the JSON that it prints."""
    enter = f"import os; open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
    return answer([sys.executable, "-c", enter + textwrap.dedent(code)])


def answer(command: list[str]) -> Any:
    """Run a command; return the JSON that it prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


pytestmark = pytest.mark.alone

QUOTA = {"cpu_cfs_period_us": 10_000, "cpu_cfs_quota_us": 2_000, "cpu_max": "2000 10000"}
"""A fifth of a core, in periods so short that one turn on a busy core uses a quota up."""


def test_a_recording_says_how_the_container_throttled_the_command(tmp_path: Path) -> None:
    code = f"""
        import json, pathlib, sys
        from trainperf.run.launch import launch
        from trainperf.model import Run

        busy = "import time\\nend = time.time() + 1\\nwhile time.time() < end: pass"
        run = Run((sys.executable, "-c", busy), {str(tmp_path)!r}, "busy")
        recording = launch(run, pathlib.Path({str(tmp_path / "run")!r}))
        use = recording.container
        samples = [s.host.quota_throttled for s in recording.samples if s.host is not None]
        print(json.dumps([use.quota_cores, use.throttled_share, sum(samples)]))
    """
    with child_group("cpu", **QUOTA) as group:
        quota, share, throttled = run_in(group, code)
    assert quota == 0.2
    assert share > 0.2
    assert throttled > 0
