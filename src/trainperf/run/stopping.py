"""End every process of a run, whatever ends trainperf itself.

Run as a program, this file is the guard of a run: it waits until trainperf lets it
go, and stops the run if trainperf died instead (kill -9, out of memory).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

from trainperf.run.view import remove

TRACKERS_S = 3.0
VIEW = "view"
"""Folder of a run: what it wrote into folders that it saw copy-on-write."""
SCRATCH = "scratch"
"""Folder of a run: what its writers were sent to, as `child.shield.writers` names it."""
BOARD = "board"
"""Folder of a run: what its ranks said to each other, as `child.job.ranks` names it."""
LEG = "leg-"
"""Begins the names of the folders of legs."""
GONE_S = 5.0
START = "import os, runpy; runpy.run_path(os.environ['GUARD_OF_RUNS'], run_name='__main__')"
NOBODY = -1
"""Leads no session: that of a run which has no process yet."""

_NAMED = re.compile(r"(?:torch_(\d+)_\w+|sem\.loky-(\d+)-\w+)")
"""Names that carry the id of the process that made the file: PyTorch's and loky's."""

GUARD = "GUARD_OF_RUNS"
"""The variable that tells a guard where its source is."""


def stop_session(leader: int, run_file: str) -> None:
    """Stop every process of a run and wait until none is left.

    A run's processes are those of the session of `leader`, and those that left it but carry
    `run_file` in `TRAINPERF_RUN`. All are frozen before any is killed, so that a launcher cannot
    go on with what stands after the training. Python's resource
    trackers are let finish: they remove the shared memory and semaphores their dead owners left.
    So are compilers, which remove their temporary files. What carries the number of a process of
    the run in its name is removed here.
    """
    processes = _processes(leader, run_file)
    stopped = {process.pid for process in processes}
    for process in processes:
        _send(process, signal.SIGSTOP)
    commands = {process: _command(process) for process in processes}
    trackers = [
        one for one, words in commands.items() if any(name in " ".join(words) for name in TRACKERS)
    ]
    compilers = [one for one, words in commands.items() if COMPILER.search("".join(words[:1]))]
    for process in processes:
        if process not in (*trackers, *compilers):
            _send(process, signal.SIGKILL)
    for process in compilers:
        _send(process, signal.SIGTERM)
    for process in (*trackers, *compilers):
        _send(process, signal.SIGCONT)
    until = time.monotonic() + TRACKERS_S
    while time.monotonic() < until and any(map(_alive, (*trackers, *compilers))):
        time.sleep(0.01)
    until = time.monotonic() + GONE_S
    while left := _processes(leader, run_file):  # forked while they were being listed
        for process in left:
            _send(process, signal.SIGKILL)
            stopped.add(process.pid)
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    remove_shm(stopped)


def _processes(leader: int, run_file: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid() or not _alive(process):
            continue
        with suppress(OSError, psutil.Error):
            same = os.getsid(process.pid) == leader
            if same or process.environ().get("TRAINPERF_RUN") == run_file:
                found.append(process)
    return found


TRACKERS = ("resource_tracker", "torch_shm_manager")
"""Processes that clean up after others and end when these are gone."""
COMPILER = re.compile(r"(^|[/-])(g?cc|[gc]\+\+|clang(\+\+)?|nvcc)(-[\d.]+)?$")
"""Programs that start others to compile (`torch.compile`), with files in the temporary folder."""


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


class Guard:
    """A process that stops the runs it watches if trainperf dies. A context manager.

    It learns of the death by the end of its input. Where it cannot be started, the
    runs go on without: their starter still stops them in every other case.
    """

    def __init__(self) -> None:
        env = {name: value for name, value in os.environ.items() if name != "TRAINPERF_RUN"}
        # What people type (`pkill -9 -f trainperf`) is not to end the guard as well: the path
        # to its source stands where command lines do not show it, nor that to an environment.
        paths = [path for path in sys.path if path not in ("", os.getcwd())]
        env |= {GUARD: __file__, "PYTHONPATH": os.pathsep.join(paths)}
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                (os.path.realpath(sys.executable), "-P", "-c", START),
                env=env,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # the terminal's Ctrl-C is not for it
            )

    def watch(self, run_file: str, leader: int = NOBODY) -> None:
        """Stop the session of `leader` and what carries `run_file`, if trainperf dies.

        To be called before the run has a folder, and again when it has a leader.
        """
        self._say("+", run_file, leader)

    def forget(self, run_file: str) -> None:
        """Leave a run that has ended alone: its number may be given to another's."""
        self._say("-", run_file, NOBODY)

    def _say(self, sign: str, run_file: str, leader: int) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, ValueError):
                line = f"{sign}{leader} {os.fsencode(run_file).hex()}\n"
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()


def _guard() -> None:
    watched: dict[str, int] = {}
    for line in sys.stdin.buffer:  # until the other side is gone
        number, _, name = line[1:].decode().partition(" ")
        run_file = os.fsdecode(bytes.fromhex(name.strip()))
        if line.startswith(b"+"):
            watched[run_file] = int(number)
        else:
            watched.pop(run_file, None)
    for run_file, leader in watched.items():
        stop_session(leader, run_file)
    for run_file in watched:  # once nobody is left who could write there
        remove_temporary(os.path.dirname(run_file))
        clear(os.path.dirname(run_file))


def remove_temporary(folder: str) -> None:
    """Remove the temporary files of the stopped processes of a run. Never raises."""
    from trainperf.run.event_files import EventFiles

    files = EventFiles(Path(folder), lambda event: None)
    with suppress(OSError):
        files.read()
        files.remove_temporary()


def clear(folder: str) -> None:
    """Remove what a run that has ended wrote in place of the user's files.

    The folder of a leg goes altogether: nothing of it is kept. Never raises.
    """
    for name in (VIEW, SCRATCH, BOARD):
        remove(os.path.join(folder, name))
    if os.path.basename(folder).startswith(LEG):
        shutil.rmtree(folder, ignore_errors=True)


# Shared memory that processes of a run left behind in `/dev/shm`.
#
# PyTorch's tensors between processes are files without a name under its default sharing strategy,
# and end with the last process that has them open. Under `file_system` they are files
# `torch_<pid>_<random>_<count>` that a manager process removes, unless it is killed too. Python's
# own semaphores and blocks (`sem.mp-…`, `psm_…`) carry no process id: Python's resource tracker
# removes them.


def remove_shm(pids: Collection[int], folder: str = "/dev/shm") -> None:
    """Remove the shared memory that processes with these ids made.

    A process id may have been given to another process since: ask only for processes
    that were just stopped.
    """
    for path in Path(folder).glob("*"):
        match = _NAMED.fullmatch(path.name)
        if match and int(match[1] or match[2]) in pids:
            with suppress(OSError):
                path.unlink()


def _alive(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie waits for its parent and is none of ours."""
    with suppress(psutil.Error):
        return bool(process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    return False


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.Error, OSError):
        process.send_signal(number)


if __name__ == "__main__":
    _guard()
