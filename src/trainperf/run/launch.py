"""Start a command under observation, follow it, stop it, and collect its recording."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from trainperf.child.timing.budget import Budget
from trainperf.recording.run import Ending, Event, Recording, Run
from trainperf.run.event_files import EventFiles
from trainperf.run.spawn import Interrupted, Output, interruptible, output_tail, prepare, start
from trainperf.run.stopping import Guard, clear, stop_session
from trainperf.samplers.container import ContainerWatch
from trainperf.samplers.sampling import Sampling

POLL_S, PLAIN_POLL_S = 0.05, 0.02
BETWEEN_EPOCHS_S = 10.0
"""How long an epoch's end may take to be timed before the run is stopped."""
AGAIN = 1.5
"""What was seen once is waited for a second time, for so many times as long."""
GRACE_S = 15.0
"""How long the last measurement may overrun its time before the run is stopped."""

NO_SPACE = os.strerror(errno.ENOSPC)

OnEvent = Callable[[Event], None]


def launch(
    run: Run,
    folder: Path,
    on_event: OnEvent = lambda event: None,
    interrupted: Interrupted | None = None,
) -> Recording:
    """Run `run.command` observed until it is measured, ends, or must be stopped.

    `folder` is the run's own: events and output go there. Every process that the
    command started is gone when this returns, however it returns. A Ctrl-C ends the
    run, not the measurement: what was recorded until then is returned. `interrupted`
    says whether there was one, where the caller looks out for it already.

    Raises `TrainperfError` if the command cannot be started, or `folder` not written.
    """
    following = _Following(run, folder, on_event)
    started = time.monotonic()
    shm = _SharedMemory()
    watch = ContainerWatch()
    with ExitStack() as stack:
        asked = interrupted or stack.enter_context(interruptible())
        process, log = stack.enter_context(_started(run, folder))
        with Sampling(process.pid) as sampling:
            ending = _follow(process, following, asked, (shm, watch, log))
        container = watch.use()
    status = process.returncode
    following.read()
    following.note_on_space()
    following.remove_temporary()
    for left in folder.glob("reads-*.jsonl"):  # of helpers whose parent did not ask for it
        left.unlink(missing_ok=True)
    return Recording(
        run=run,
        ending=_ending(ending, status, following),
        exit_status=status,
        started=started,
        ended=time.monotonic(),
        events={pid: tuple(events) for pid, events in following.events.items()},
        samples=tuple(sampling.samples),
        gpus=tuple(sampling.gpus),
        gpu_reason=sampling.gpu_reason,
        sampling_note=sampling.note,
        output_tail=output_tail(folder),
        shm_used=shm.used,
        container=container,
    )


@contextmanager
def _started(run: Run, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Output]]:
    """The process of a run and what it prints; in the end every process that it started is gone."""
    run_file = prepare(run, folder)
    with Output(folder) as log, Guard() as guard:
        guard.watch(run_file)
        process = start(run, run_file, log.file)
        guard.watch(run_file, process.pid)
        try:
            yield process, log
        finally:
            stop_session(process.pid, run_file)
            process.wait()
            clear(str(folder.resolve()))


class _SharedMemory:
    """How much of `/dev/shm` was taken since the start, at most; None if there is none."""

    def __init__(self) -> None:
        self._before = self._most = self._taken()

    def look(self) -> None:
        """Take a reading."""
        self._most = max(self._most, self._taken())

    @property
    def used(self) -> int | None:
        """Bytes taken at most."""
        return None if self._before < 0 else self._most - self._before

    @staticmethod
    def _taken() -> int:
        with suppress(OSError):
            return shutil.disk_usage("/dev/shm").used
        return -1


class _Following(EventFiles):
    """The events of a run, and what they say of how far it is."""

    def __init__(self, run: Run, folder: Path, on_event: OnEvent) -> None:
        super().__init__(folder, on_event)
        self.run = run
        self.last_event = time.monotonic()
        self.budget = Budget(asdict(run), self.last_event)
        self.extras_from: float | None = None
        self.measured: float | None = None
        self.patience = BETWEEN_EPOCHS_S
        self.done = False

    def _take(self, pid: int, event: Event) -> None:
        now, kind = time.monotonic(), event["e"]
        if kind != "at":  # that a process can say where it is, is no sign of progress
            self.last_event = now
        if kind == "facts":
            self.extras_from = now
        elif kind == "measured":
            self.measured = now
        elif kind in ("cycles", "tracing"):
            self.patience += float(event["limit_s"])
        elif kind == "between" and self.measured is not None:
            self.patience = max(self.patience, now - self.measured + AGAIN * event["seconds"])
        elif kind == "done":
            self.done = True
        super()._take(pid, event)

    def note_on_space(self) -> None:
        """Say where a script found no space that writes into a copy of its folders."""
        text = (
            f"what the script writes into its folders is kept in {self.folder} while it runs; "
            "no space was left there: name another folder with --output-dir"
        )
        for pid, recorded in self.events.items() if self.run.guarded else ():
            if any(one["e"] == "error" and NO_SPACE in str(one.get("text")) for one in recorded):
                self._take(pid, {"e": "note", "t": time.monotonic(), "text": text})
                return

    def must_stop(self) -> Ending | None:
        """Say whether the run has to be stopped now, and what that makes of it."""
        now = time.monotonic()
        if self.done or self.lost:
            return Ending.MEASURED
        if self.measured is not None and now - self.measured > self.patience:
            return Ending.MEASURED
        if self.extras_from is not None and self.measured is None:
            late = now > self.budget.extra_by(self.extras_from) + GRACE_S
            return Ending.MEASURED if late or now > self.budget.end else None
        if now > self.budget.end:
            return Ending.OUT_OF_BUDGET if self.measured is None else Ending.MEASURED
        if now - self.last_event > self.run.stall_s:
            return Ending.STALLED
        return None


def _follow(
    process: subprocess.Popen[bytes],
    following: _Following,
    interrupted: Interrupted,
    watched: Sequence[_SharedMemory | ContainerWatch | Output],
) -> Ending | None:
    """Poll until the run ends by itself (None) or has to be stopped; look at what is `watched`."""
    while True:
        following.read()
        for one in watched:
            one.look()
        stop = following.must_stop()
        if stop is not None:
            return stop
        if process.poll() is not None:
            return None
        if interrupted():
            return Ending.INTERRUPTED
        time.sleep(POLL_S)


def _ending(ending: Ending | None, status: int, following: _Following) -> Ending:
    if ending is not None:
        return ending
    if following.measured is not None:
        return Ending.MEASURED
    if status < 0 or status > 128:
        return Ending.SIGNALLED
    return Ending.FINISHED if status == 0 else Ending.FAILED


@dataclass(frozen=True)
class Finished:
    """A command that ended by itself: its seconds, its exit status and the last it printed.

    `seconds` is None where it was stopped: its time was over, or the user wanted an end.
    """

    seconds: float | None
    status: int
    tail: str


def run_to_its_end(run: Run, folder: Path, limit_s: float, interrupted: Interrupted) -> Finished:
    """Run `run.command` until it ends, or for `limit_s` seconds; its sources are laid over.

    Nothing of trainperf is in it. It sees the user's folders copy-on-write, as any other run does;
    `folder` is its own. Every process that it started is gone when this returns.
    """
    ended: float | None = None
    with _started(replace(run, plain=True, leg=None, seed=None), folder) as (process, log):
        began = time.monotonic()
        while time.monotonic() - began < limit_s and not interrupted():
            log.look()
            if process.poll() is not None:
                ended = time.monotonic()
                break
            time.sleep(PLAIN_POLL_S)
    seconds = None if ended is None else ended - began
    return Finished(seconds, process.returncode, output_tail(folder))
