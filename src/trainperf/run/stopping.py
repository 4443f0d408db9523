"""End every process of a run, whatever ends trainperf itself.

Run as a program, this file is the guard of a run: it waits until trainperf lets it
go, and stops the run if trainperf died instead (kill -9, out of memory). It imports
nothing of trainperf, so that it starts from its path alone.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from trainperf.run.mpi_sessions import remove_sessions
from trainperf.run.shm import remove_shm
from trainperf.run.view import remove

TRACKERS_S = 3.0
VIEW = "view"
"""Folder of a run: what it wrote into folders that it saw copy-on-write."""
SCRATCH = "scratch"
"""Folder of a run: what its writers were sent to, as `child.shield.writers` names it."""
BOARD = "board"
"""Folder of a run: what its ranks said to each other, as `child.job.boards` names it."""
LEG = "leg-"
"""Begins the names of the folders of legs."""
GONE_S = 5.0
GUARD = "GUARD_OF_RUNS"
"""The variable that tells a guard where its source is."""
START = "import os, runpy; runpy.run_path(os.environ['GUARD_OF_RUNS'], run_name='__main__')"
PR_SET_CHILD_SUBREAPER = 36
NOBODY = -1
"""Leads no session: that of a run which has no process yet."""


def stop_session(leader: int, run_file: str) -> None:
    """Stop every process of a run and wait until none is left.

    A run's processes are those of the session of `leader`, and those that left it but carry
    `run_file` in `TRAINPERF_RUN`. All are frozen before any is killed, so that a launcher
    cannot go on with what stands after the training. Python's resource trackers are let finish:
    they remove the shared memory and semaphores their dead owners left. So are compilers, which
    remove their temporary files. What carries the number of a process of the run in its name is
    removed here.
    """
    processes = _processes(leader, run_file)
    stopped = {process.pid for process in processes}
    for process in processes:
        _signal(process, signal.SIGSTOP)
    trackers = [process for process in processes if _is_tracker(process)]
    compilers = [process for process in processes if _is_compiler(process)]
    for process in processes:
        if process not in (*trackers, *compilers):
            _signal(process, signal.SIGKILL)
    for process in compilers:
        _signal(process, signal.SIGTERM)
    for process in (*trackers, *compilers):
        _signal(process, signal.SIGCONT)
    until = time.monotonic() + TRACKERS_S
    while time.monotonic() < until and any(map(_alive, (*trackers, *compilers))):
        time.sleep(0.01)
    until = time.monotonic() + GONE_S
    while left := _processes(leader, run_file):  # forked while they were being listed
        for process in left:
            _signal(process, signal.SIGKILL)
            stopped.add(process.pid)
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    remove_shm(stopped)
    remove_sessions(stopped)


def _processes(leader: int, run_file: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid() or not _alive(process):
            continue
        with suppress(OSError, psutil.Error):
            if (
                os.getsid(process.pid) == leader
                or process.environ().get("TRAINPERF_RUN") == run_file
            ):
                found.append(process)
    return found


def _alive(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie waits for its parent and is none of ours."""
    with suppress(psutil.Error):
        return bool(process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    return False


TRACKERS = ("resource_tracker", "torch_shm_manager")
"""Processes that clean up after others and end when these are gone."""


COMPILER = re.compile(r"(^|[/-])(g?cc|[gc]\+\+|clang(\+\+)?|nvcc)(-[\d.]+)?$")
"""Programs that start others to compile (`torch.compile`), with files in the temporary folder."""


def _is_tracker(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return any(name in part for part in process.cmdline() for name in TRACKERS)
    return False


def _is_compiler(process: psutil.Process) -> bool:
    with suppress(psutil.Error, IndexError):
        return COMPILER.search(process.cmdline()[0]) is not None
    return False


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.Error, OSError):
        process.send_signal(number)


def _adopt_orphans() -> set[psutil.Process]:
    """Have what the run's processes leave to run on become children of this process.

    Returns those that it has by now.
    """
    _take_orphans(True)
    with suppress(psutil.Error, OSError):
        return set(psutil.Process().children())
    return set()


def _take_orphans(taken: bool) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(taken))


def _end_orphans(before: set[psutil.Process]) -> None:
    """End the children that came since, that no run of ours names and that left our session.

    They are daemons that were given another environment, and left the session of their run. A
    run's own process carries `TRAINPERF_RUN`, and was waited for once it ended; whatever else this
    process starts stays in its session, but for guards.
    """
    with suppress(psutil.Error, OSError):
        for child in psutil.Process().children():
            with suppress(psutil.Error, OSError):
                if child in before or os.getsid(child.pid) == os.getsid(0):
                    continue
                if not _alive(child):
                    os.waitpid(child.pid, os.WNOHANG)
                    continue
                if child.environ().keys() & {"TRAINPERF_RUN", GUARD}:
                    continue
                for one in (*child.children(recursive=True), child):
                    _signal(one, signal.SIGKILL)
                child.wait(GONE_S)


class Guard:
    """A process that stops the runs it watches if trainperf dies. A context manager.

    It learns of the death by the end of its input. Where it cannot be started, the
    runs go on without: their starter still stops them in every other case.
    """

    def __init__(self) -> None:
        self._before = _adopt_orphans()
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
        _end_orphans(self._before)
        _take_orphans(False)
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()


def _guard() -> None:
    watched: dict[str, int] = {}
    for line in sys.stdin.buffer:
        leader, _, name = line[1:].decode().partition(" ")
        run_file = os.fsdecode(bytes.fromhex(name.strip()))
        if line.startswith(b"+"):
            watched[run_file] = int(leader)
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


if __name__ == "__main__":
    _guard()
