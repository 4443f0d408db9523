"""One leg of a trial as trainperf sees it: a process tree that runs when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trainperf.child import leg as words
from trainperf.errors import TrainperfError
from trainperf.event_files import EventFiles, training
from trainperf.model import Event, Run
from trainperf.spawn import OUTPUT, output_tail, prepare, start
from trainperf.stopping import Guard, clear, stop_session
from trainperf.trial.processes import carries, send, session_of, signal_name, stat

LOOK_EVERY_S = 0.0005
WAKE_AGAIN_S = 0.01
GONE_S = 5.0
"""A process that a driver or a file system does not let go is waited for no longer."""
ENDED = "its loop ended before it could be measured"


class LegFailed(Exception):  # noqa: N818 - an outcome, with its reason
    """A leg cannot go on: it ended, crashed, hung or was killed."""


@dataclass(frozen=True)
class Slice:
    """What a leg did in its turn: `steps` turns of its loop in `seconds`.

    `work` is in steps of the unchanged script; `own_s` is what trainperf's own hooks
    took of it.
    """

    seconds: float
    steps: int
    work: float
    own_s: float

    @property
    def rate(self) -> float:
        """Work per second."""
        return self.work / self.seconds


class Leg:
    """A run that warms up, stops itself, and goes on for a slice at a time.

    `name` is that of the fix it tries. All its processes are gone after `end`.
    """

    def __init__(self, name: str, run: Run, folder: Path) -> None:
        self.name = name
        self.run = run
        self.folder = folder
        self.failure = ""
        self.turn = 0
        self.work_per_step = 1.0
        self.started_s = 0.0
        self.ready_s: float | None = None
        self.slowest_s = 0.0  # the longest slice until now
        self._files = EventFiles(folder, self._note)
        self._errors: list[Event] = []
        self._words: words.Words | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None
        self._log: IO[bytes] | None = None
        self._run_file = ""
        self._others: list[int] = []
        self._training = 0

    # ------------------------------------------------------------------- its life

    def start(self, guard: Guard) -> None:
        """Start the process. A failure to do so is kept in `failure`."""
        self.started_s = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._words = words.Words(str(self.folder.resolve()), create=True)
            self._run_file = prepare(self.run, self.folder)
            self._log = (self.folder / OUTPUT).open("wb")
            self._process = start(self.run, self._run_file, self._log)
        except (TrainperfError, OSError) as error:
            self.failure = f"could not be started: {error}"
            return
        self._guard = guard
        guard.watch(self._process.pid, self._run_file)

    @property
    def alive(self) -> bool:
        """Whether it was started and has not failed."""
        return self._process is not None and not self.failure

    @property
    def events(self) -> dict[int, list[Event]]:
        """What its processes recorded until now, by process id."""
        return self._files.events

    @property
    def trained(self) -> Sequence[Event]:
        """The events of the process that trains; empty if none does yet."""
        return next(iter(training(self.events).values()), [])

    def look(self) -> bool:
        """Whether it waits for a turn; what went wrong is in `failure`."""
        if not self.alive:
            return False
        assert self._words is not None
        if self._words[words.OVER] > self.turn:
            return True
        self._look_for_failure()
        return False

    def end(self) -> None:
        """Stop all its processes, stopped ones as well, and forget its scratch files."""
        process, self._process = self._process, None
        if process is not None:
            stop_session(process.pid, self._run_file)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GONE_S)
            if self._guard is not None:
                self._guard.forget(process.pid, self._run_file)
            self._files.read()
            self._files.remove_temporary()
        if self._log is not None:
            self._log.close()
        if self._words is not None:
            self._words.close()
        self._words = self._log = None
        clear(str(self.folder.resolve()))

    # --------------------------------------------------------------------- its turn

    def arrived(self) -> None:
        """It has warmed up and waits: stop all of it, and read what its loop is.

        Raises `LegFailed` if several of its processes train: they would have to agree
        on when to stop.
        """
        assert self._words is not None
        self.ready_s = time.monotonic() - self.started_s
        self._files.read()
        several = len(training(self.events))
        if several > 1:
            self._fail(f"{several} processes train; only one can be stopped and let go on")
        self._find_training()
        self._words[words.ALONE] = 1
        self._stop_all()
        self._check_patched()
        for event in self.trained:
            if event["e"] == "leg":
                self.work_per_step = float(event["steps_per_call"])

    def _check_patched(self) -> None:
        """Make sure that the changed sources are what runs: a script may read its own."""
        ran = {
            os.path.realpath(event["file"])
            for events in self.events.values()
            for event in events
            if event["e"] == "patched"
        }
        for path in self.run.sources:
            if os.path.realpath(path) not in ran:
                self._fail(f"the change did not take effect: {path} is not run by Python's import")

    def run_slice(
        self, steps: int, settle: int, limit_s: float, asked: Callable[[], bool]
    ) -> Slice | None:
        """Let it run `settle` and then `steps` timed turns of its loop, and stop it again.

        Returns None if `asked` came true meanwhile. Raises `LegFailed` if it ended, or
        took longer than `limit_s` seconds and its start: what it opens anew when an
        epoch begins (a buffer to be filled) was in that as well.
        """
        assert self._words is not None
        self.turn += 1
        self._words[words.SETTLE], self._words[words.STEPS] = settle, steps
        self._words[words.TURN] = self.turn
        began = time.monotonic()
        self._wake()
        self._wait(began, limit_s + (self.ready_s or 0.0), asked)
        self._stop_all()
        if self._words[words.ANEW]:
            self._fail(ENDED)
        if self._words[words.OVER] <= self.turn:
            return None
        took = time.monotonic() - began
        self.slowest_s = max(self.slowest_s, took)
        return self._read_slice()

    def _wait(self, began: float, limit_s: float, asked: Callable[[], bool]) -> None:
        assert self._words is not None
        woken = began
        while self._words[words.OVER] <= self.turn and not asked():
            if self._words[words.ANEW]:
                return
            now = time.monotonic()
            if now - woken > WAKE_AGAIN_S:
                # It may have been stopped by us just before it stopped itself.
                woken = now
                self._look_for_failure()
                if self.failure:
                    raise LegFailed(self.failure)
                if self._is_stopped():
                    self._wake()
            if now - began > limit_s:
                self._fail(f"made no {steps_text(self._words[words.STEPS])} in {limit_s:.0f} s")
            time.sleep(LOOK_EVERY_S)

    def _read_slice(self) -> Slice:
        self._files.read()
        if self._files.lost:
            self._fail("its measurements could not be written: no space is left")
        counted: int | None = None
        for event in reversed(self.trained):
            if event["e"] == "work" and event["b"] == self.turn:
                counted = event["n"]
            if event["e"] == "block" and event["b"] == self.turn:
                if event["d"] <= 0:
                    break
                work = event["n"] * self.work_per_step if counted is None else float(counted)
                return Slice(event["d"], event["n"], work, event["own"])
        raise LegFailed("the slice left no measurement")

    def _fail(self, reason: str) -> None:
        self.failure = reason
        raise LegFailed(reason)

    def _look_for_failure(self) -> None:
        if self._process is None or self._process.poll() is None:
            return
        self._files.read()
        self.failure = self._why(self._process.returncode)

    def _why(self, status: int) -> str:
        if self._errors:
            error = self._errors[-1]
            text = str(error["text"]).strip().partition("\n")[0][:200]
            return f"fails: {error['type']}: {text}" if text else f"fails: {error['type']}"
        if status < 0:
            return f"was killed by {signal_name(-status)}" + (
                ", as when memory runs out" if -status == signal.SIGKILL else ""
            )
        if not self.trained:
            tail = ""
            with suppress(OSError):
                tail = output_tail(self.folder).strip().rpartition("\n")[2][:200]
            return "made no step" + (f": {tail}" if status and tail else "")
        if status:
            return f"ended with exit status {status}"
        return ENDED

    def _note(self, event: Event) -> None:
        if event["e"] == "error":
            self._errors.append(event)
        elif event["e"] == "done" and not self.failure:
            self.failure = ENDED

    # ------------------------------------------------------------------ its processes

    def _find_training(self) -> None:
        """Find the process that trains: a launcher may have put it into another session."""
        assert self._process is not None
        self._training = self._process.pid
        for pid in training(self.events):
            if carries(pid, self._run_file):
                self._training = pid

    def _stop_all(self) -> None:
        assert self._process is not None
        leaders = {self._process.pid}
        if self._training:
            leaders.add(stat(self._training)[1])
        leaders.discard(0)
        self._others = [pid for leader in leaders for pid in session_of(leader)]
        for pid in self._others:
            send(pid, signal.SIGSTOP)

    def _wake(self) -> None:
        assert self._process is not None
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGCONT)
        for pid in self._others:
            send(pid, signal.SIGCONT)

    def _is_stopped(self) -> bool:
        return self._process is not None and stat(self._training)[0] == "T"


def end_all(legs: Sequence[Leg]) -> None:
    """End legs at the same time: a process on a GPU takes seconds to be gone."""
    with ThreadPoolExecutor(max(1, len(legs))) as pool:
        list(pool.map(lambda leg: leg.end(), legs))


def steps_text(count: int) -> str:
    """A number of steps in words."""
    return "step" if count == 1 else f"{count} steps"
