"""Run a command from start to end, with nothing of trainperf in it, and time it by the wall."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.recording.run import Run
from trainperf.run.output import Output
from trainperf.run.spawn import Interrupted, output_tail, prepare, start
from trainperf.run.stopping import Guard, clear, stop_session

POLL_S = 0.02


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

    Nothing is observed in it. It sees the user's folders copy-on-write, as any other run does;
    `folder` is its own. Every process that it started is gone when this returns.
    """
    run = replace(run, plain=True, leg=None, seed=None)
    run_file = prepare(run, folder)
    with Output(folder) as log, Guard() as guard:
        guard.watch(run_file)
        began = time.monotonic()
        process = start(run, run_file, log.file)
        guard.watch(run_file, process.pid)
        ended: float | None = None
        try:
            while time.monotonic() - began < limit_s and not interrupted():
                log.look()
                if process.poll() is not None:
                    ended = time.monotonic()
                    break
                time.sleep(POLL_S)
        finally:
            stop_session(process.pid, run_file)
            status = process.wait()
            clear(str(folder.resolve()))
    return Finished(None if ended is None else ended - began, status, output_tail(folder))
