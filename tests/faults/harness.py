"""One diagnosis, and all that it may not have changed: checked in the same way for every fault."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kit.processes import (
    DYING_S,
    LONG_S,
    MARK,
    gone,
    is_left,
    script,
    sleeping,
    snapshot,
    soon,
    strays,
)
from trainperf.run.view import mounts

GOOD, FAILED, REFUSED, NOT_MEASURED = 0, 1, 2, 3
"""Exit statuses, as docs have them."""
FIRST_LINES = 3

TRAINS = """
import fcntl, json, os, signal, socket, sqlite3, subprocess, sys, time
import torch
import torch.distributed as dist
{before}
told = json.load(open(os.environ["TRAINPERF_RUN"])) if "TRAINPERF_RUN" in os.environ else {{}}
CHANGED = bool(told.get("leg") and told["sources"])
UNCHANGED = bool(told.get("leg") and not told["sources"])
OBSERVED = bool(told) and not told.get("leg") and not told.get("plain")
if "LEGS" in os.environ:
    with open(os.environ["LEGS"], "a") as legs:
        legs.write("changed " if CHANGED else "unchanged " if UNCHANGED else "")


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        row = torch.zeros(64)
        for turn in range({turns}):
            row = row + torch.sin(torch.tensor(float(index + turn)))
        {item}
        return row, torch.tensor(1.0)


def main():
    {first}
    data = Rows()
    sampler = torch.utils.data.DistributedSampler(data) if dist.is_initialized() else None
    loader = torch.utils.data.DataLoader(data, batch_size={batch}, sampler=sampler)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    {wrap}
    optimizer = torch.optim.Adam(model.parameters())
    step = 0
    for epoch in range(1000):
        for x, y in loader:
            loss = (model(x)[:, 0] - y).square().mean()
            {loss}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            {fault}


if __name__ == "__main__":
    main()
"""
PARTS = dict.fromkeys(("before", "item", "first", "wrap", "loss", "fault"), "pass")


def trains(**parts: str) -> str:
    """A training that is slow by its items; what of it is not said does nothing."""
    return TRAINS.format(**{**PARTS, "batch": "16", "turns": "20", **parts})


@dataclass(frozen=True)
class Result:
    """How a command ended, what it printed, and the number that it had."""

    status: int
    stdout: str
    stderr: str
    pid: int


@dataclass
class Place:
    """A user's folder with a script, where runs go, and what was there before.

    `check` asserts that the user's tree (contents, mode, times, owners), mounts, shared memory and
    temporary files are as they were; that no process, stopped or not, no folder of a
    leg is left; and that a report that was told is shown once more. What is `before`
    the commands makes them another user's, say.
    """

    home: Path
    runs: Path
    temporary: Path
    mark: str
    env: dict[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    sleeps: tuple[str, ...] = ()
    _tree: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _mounts: list[tuple[str, str]] = field(default_factory=list)
    _shared: set[str] = field(default_factory=set)

    def with_script(self, source: str, name: str = "train.py") -> Place:
        """Write the script; what is there now is what is to stay."""
        script(self.home, source, name)
        self.remember()
        return self

    def remember(self) -> None:
        """Take what is there now for what is to stay."""
        self._tree, self._mounts = snapshot(self.home), _mounts(self.home.parent)
        self._shared = _shared()

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command of trainperf in the user's folder."""
        command = (sys.executable, "-m", "trainperf", *words)
        return subprocess.Popen(
            [*self.before, *command],
            cwd=self.home,
            env={**os.environ, MARK: self.mark, **self.env, "COLUMNS": "300"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )

    def diagnose(self, *words: str, **options: Any) -> Result:
        """Diagnose the script, and wait for it."""
        given = words if "--output-dir" in words else ("--output-dir", str(self.runs), *words)
        last = () if any(one.endswith(".py") or one == "--" for one in words) else ("train.py",)
        return ended(self.start("diagnose", *given, *last, **options))

    def check(
        self,
        result: Result,
        status: int = GOOD,
        says: Sequence[str] = (),
        shown: bool = True,
    ) -> None:
        """Assert what holds after each fault, and this one's status and words."""
        printed = " ".join((result.stdout + result.stderr).split())
        assert result.status == status, result.stdout + result.stderr
        assert "Traceback" not in result.stderr
        assert [word for word in says if word not in printed] == [], printed
        if not result.stdout:  # refused: in one message
            assert [printed.count(word) for word in says[:1]] == [1]
        self.check_nothing_left()
        if shown:
            self.check_shown(result)

    def check_nothing_left(self) -> None:
        """Assert that all is as it was."""
        gone(self.mark, DYING_S)
        left = strays(self.mark)
        assert left == []  # stopped ones among them
        assert not [one for seconds in self.sleeps for one in sleeping(seconds)]
        assert snapshot(self.home) == self._tree
        assert _mounts(self.home.parent) == self._mounts
        assert soon(lambda: not _unheld(_shared() - self._shared), DYING_S), (
            _shared() - self._shared
        )
        assert not self.temporary.exists() or not any(map(is_left, self.temporary.iterdir()))
        assert [one.name for one in _below(self.runs) if _stands_in(one)] == []
        assert [str(one) for one in _below(self.runs) if not _is_private(one, self.runs)] == []

    def check_shown(self, result: Result) -> None:
        """Assert that the report which was told is kept, and told once more."""
        (file,) = self.runs.glob("*/diagnosis.json")
        again = ended(self.start("show", str(file.parent)))
        assert again.status == GOOD, again.stderr
        assert again.stdout.splitlines()[:FIRST_LINES] == result.stdout.splitlines()[:FIRST_LINES]


def ended(process: subprocess.Popen[str], seconds: float = 4 * LONG_S) -> Result:
    """Wait for a command."""
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        raise AssertionError(f"it did not end: {stdout}{stderr}") from None
    return Result(process.returncode, stdout, stderr, process.pid)


def _mounts(own: Path) -> list[tuple[str, str]]:
    """The machine's mounts, without those in folders of tests that run beside this one."""
    found = [(point, kind) for point, kind in mounts() if kind != "fuse.stuck"]
    return [each for each in found if "/pytest-" not in each[0] or each[0].startswith(str(own))]


def check_came_about(legs: Path, which: str) -> None:
    """Assert that legs of a kind were started, as they told in a file; skip where none was."""
    told = legs.read_text().split()
    if not told:
        pytest.skip("nothing was tried: the machine was too busy for the budget")
    assert which in told


def _shared() -> set[str]:
    """What is in shared memory, without Python's semaphores.

    Their names do not tell whose they are, and a script that is killed natively leaves its own:
    those of tests beside this one come and stay.
    """
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.mp-")}


def _unheld(names: set[str]) -> set[str]:
    """Those of some shared memory that no living process has: of neighbours', all have theirs."""
    held = ""
    for maps in Path("/proc").glob("[0-9]*/maps") if names else ():
        with suppress(OSError):
            held += maps.read_text(errors="replace")
    return {name for name in names if f"/dev/shm/{name}" not in held}


def _below(folder: Path) -> Iterator[Path]:
    return (one for one in folder.rglob("*")) if folder.exists() else iter(())


def _stands_in(path: Path) -> bool:
    """Whether a path is what a run writes in place of the user's files, or a leg."""
    return path.name.startswith("leg-") or path.name in ("view", "scratch", "board")


def _is_private(path: Path, runs: Path) -> bool:
    """Whether nobody but the user can come to a path: by its mode, or by that of a folder."""
    within = (path, *(one for one in path.parents if one.is_relative_to(runs)))
    return any(not stat.S_IMODE(one.lstat().st_mode) & 0o077 for one in within)
