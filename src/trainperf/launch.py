"""Start a command under observation, follow it, stop it, and collect its recording."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trainperf.child.observer import TEMPORARY
from trainperf.child.recorder import LOST
from trainperf.errors import TrainperfError
from trainperf.model import Ending, Event, Recording, Run
from trainperf.samplers.sampling import Sampling
from trainperf.stopping import Guard, stop_session

BOOTSTRAP = Path(__file__).parent / "child" / "bootstrap"
POLL_S = 0.05
TAIL_BYTES = 16 * 1024
BETWEEN_EPOCHS_S = 10.0
"""How long an epoch's end may take to be timed before the run is stopped."""
GRACE_S = 15.0
"""How long the last measurement may overrun its time before the run is stopped."""

OnEvent = Callable[[Event], None]


def launch(run: Run, folder: Path, on_event: OnEvent = lambda event: None) -> Recording:
    """Run `run.command` observed until it is measured, ends, or must be stopped.

    `folder` is the run's own: events and output go there. Every process that the
    command started is gone when this returns, however it returns. A Ctrl-C ends the
    run, not the measurement: what was recorded until then is returned.

    Raises `TrainperfError` if the command cannot be started, or `folder` not written.
    """
    output = folder / "output.log"
    following = _Following(run, folder, on_event)
    started = time.monotonic()
    run_file = _prepare(run, folder)
    with output.open("wb") as log, _interruptible() as interrupted:
        process = _start(run, run_file, log)
        with Guard(process.pid, run_file):
            try:
                with Sampling(process.pid) as sampling:
                    ending = _follow(process, following, interrupted)
            finally:
                stop_session(process.pid, run_file)
                status = process.wait()
    following.read()
    following.remove_temporary()
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
        output_tail=_tail(output),
    )


@dataclass
class _Following:
    """The events of all processes of a run, read as they are written."""

    run: Run
    folder: Path
    on_event: OnEvent
    events: dict[int, list[Event]] = field(default_factory=dict)
    last_event: float = field(default_factory=time.monotonic)
    first_step: float | None = None
    extras_from: float | None = None
    measured: float | None = None
    done: bool = False
    lost: bool = False
    _offsets: dict[Path, int] = field(default_factory=dict)

    def read(self) -> None:
        """Read what was appended to the event files since the last time."""
        for path in sorted(self.folder.glob("events-*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                data = file.read()
            complete = data.rfind(b"\n") + 1
            if not complete:
                continue
            self._offsets[path] = self._offsets.get(path, 0) + complete
            pid = int(path.stem.partition("-")[2])
            for line in data[:complete].splitlines():
                with suppress(ValueError):
                    self._take(pid, json.loads(line))
        self._look_for_losses()

    def _look_for_losses(self) -> None:
        """Notice a process that cannot write its events; the file's name says why."""
        for path in [] if self.lost else self.folder.glob(f"{LOST}-*"):
            _, pid, number = path.name.split("-")
            reason = os.strerror(int(number))
            text = f"no more events could be written ({reason}): what follows was not measured"
            self._take(int(pid), {"e": "note", "t": time.monotonic(), "text": text})
            self.lost = True

    def _take(self, pid: int, event: Event) -> None:
        self.events.setdefault(pid, []).append(event)
        now = self.last_event = time.monotonic()
        kind = event["e"]
        if kind == "first_update" and self.first_step is None:
            self.first_step = now
        elif kind == "facts":
            self.extras_from = now
        elif kind == "measured":
            self.measured = now
        elif kind == "done":
            self.done = True
        self.on_event(event)

    def remove_temporary(self) -> None:
        """Remove the files that stopped processes would have removed at their exit."""
        for events in self.events.values():
            for event in events:
                for name in event["files"] if event["e"] == "temporary" else ():
                    if Path(name).name.startswith(TEMPORARY):
                        with suppress(OSError):
                            Path(name).unlink()
            latest = [event["names"] for event in events if event["e"] == "folders"]
            for name in latest[-1] if latest else ():
                shutil.rmtree(name, ignore_errors=True)

    def must_stop(self) -> Ending | None:
        """Say whether the run has to be stopped now, and what that makes of it."""
        now = time.monotonic()
        if self.done or self.lost:
            return Ending.MEASURED
        if self.measured is not None and now - self.measured > BETWEEN_EPOCHS_S:
            return Ending.MEASURED
        if self.extras_from is not None and self.measured is None:
            if now - self.extras_from > self.run.extra_s + GRACE_S:
                return Ending.MEASURED
            return None
        if self.first_step is not None and now - self.first_step > self.run.budget_s:
            return Ending.OUT_OF_BUDGET
        if now - self.last_event > self.run.stall_s:
            return Ending.STALLED
        return None


def _follow(
    process: subprocess.Popen[bytes], following: _Following, interrupted: Callable[[], bool]
) -> Ending | None:
    """Poll until the run ends by itself (None) or has to be stopped."""
    while True:
        following.read()
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


def _prepare(run: Run, folder: Path) -> str:
    """Write what the child reads at its start; return that file's name."""
    settings = {
        "folder": str(folder.resolve()),
        "parent": os.getpid(),
        "steps": run.steps,
        "measure_s": run.measure_s,
        "extra_s": run.extra_s,
    }
    file = folder.resolve() / "run.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings), encoding="utf-8")
        (folder / "output.log").touch()
    except OSError as error:
        raise TrainperfError(
            f"cannot write to {folder}: {error.strerror}",
            hint="free some space, or name another folder with --output-dir",
        ) from error
    return str(file)


def _start(run: Run, run_file: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    env = {**os.environ, **run.env, "TRAINPERF_RUN": run_file}
    before = env.get("PYTHONPATH")
    env["PYTHONPATH"] = str(BOOTSTRAP) + (os.pathsep + before if before else "")
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def die_with_parent() -> None:
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    try:
        return subprocess.Popen(
            run.command,
            cwd=run.cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    except OSError as error:
        raise TrainperfError(
            f"cannot start {run.command[0]}: {error.strerror}",
            hint="check the command after `--`, as you would type it in this folder",
        ) from error


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C, SIGTERM and a closed terminal into a question that can be asked.

    Once it was asked, Ctrl-C stays without effect: what was measured is about to be
    reported, and asking again must not lose it.
    """
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        asked = True

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            continue  # under nohup: it stays ignored, by us and by the script
        with suppress(ValueError):  # not in the main thread: nothing to catch
            before[number] = signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            ignored = asked and number is signal.SIGINT
            signal.signal(number, signal.SIG_IGN if ignored else handler)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL_BYTES))
        return file.read().decode(errors="replace")
