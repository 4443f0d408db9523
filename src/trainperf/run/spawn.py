"""Start a command with the observer in it; ask whether the user wants it to end."""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from trainperf import bounded, store, trainer_settings
from trainperf.errors import TrainperfError
from trainperf.recording.cells import in_traceback, is_configuration, is_notebook
from trainperf.recording.run import Run
from trainperf.run import processes, view
from trainperf.run.guarding import tracker_environment
from trainperf.run.stopping import SCRATCH, VIEW
from trainperf.source.notebooks.notebook import as_run

BOOTSTRAP = Path(__file__).parent.parent / "child" / "bootstrap"
OUTPUT = "output.log"
TAIL_BYTES = 16 * 1024
MOST_BYTES = 64 << 20
"""So much of the disk what a run prints may take, but for what it prints between two looks."""
GPU_MEMORY = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
"""TensorFlow takes all GPU memory at its start if not told otherwise: legs could not live
beside each other, and nobody could say what the script needs."""

LOGS = "PET_LOG_DIR"
"""Where torchrun makes a folder for each of its runs, in the temporary one unless it is told;
`--log-dir` in its command is followed all the same."""

CYCLE_SHARE = 1 / 6
"""The share of the budget that what stands between two calls of `fit` may be waited for."""

Interrupted = Callable[[], bool]
"""Whether the user asked for an end: Ctrl-C, SIGTERM, a closed terminal."""


def run_file_of(folder: Path) -> str:
    """The file that `prepare` writes for a run in `folder`; its name tells the run's processes."""
    return str(folder.resolve() / "run.json")


def prepare(run: Run, folder: Path) -> str:
    """Write what the child reads at its start; return that file's name.

    Raises `TrainperfError` if `folder` cannot be written to.
    """
    folder = folder.resolve()
    file = Path(run_file_of(folder))
    contents = _contents(run)
    overlay = _kept(contents, folder)
    settings = {
        "folder": str(folder),
        "parent": os.getpid(),
        "parent_ticks": processes.began(os.getpid()),
        "machine": processes.machine(),
        "measure_s": run.measure_s,
        "extra_s": run.extra_s,
        "budget_s": run.budget_s,
        "began": time.monotonic() if run.began is None else run.began,
        "trials": run.trials,
        "cycle_s": run.budget_s * CYCLE_SHARE,
        "sources": overlay,
        "guarded": list(run.guarded),
        "seed": run.seed,
        "leg": None if run.leg is None else dataclasses.asdict(run.leg),
        "board": run.board,
        "devices": run.devices,
        "trace": run.trace,
        "plain": run.plain,
        "trainers": None if run.leg is not None or run.plain else trainer_settings.names(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, kept in overlay.items():
            Path(kept).write_bytes(as_run(path, contents[path]))
        for path, laid in _laid(run, folder).items():
            if laid is not None:
                Path(laid).write_bytes(run.files[path] or b"")
        # Whole, or not at all: another trainperf may look just now whose run this is.
        store.write_whole(file, json.dumps(settings).encode())
        (folder / OUTPUT).touch()
    except OSError as error:
        _remove(folder, (*overlay.values(), file))
        raise TrainperfError(
            f"cannot write to {folder}: {error.strerror}",
            hint="free some space, or name another folder with --output-dir",
        ) from error
    return str(file)


def _remove(folder: Path, files: Iterable[str | Path]) -> None:
    """Remove what was written for a run that cannot begin, and its folder if that is all."""
    for one in (*files, folder / OUTPUT):
        with suppress(OSError):
            os.unlink(one)
    with suppress(OSError):
        folder.rmdir()


def start(run: Run, run_file: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the command of a run, in a session of its own, with the observer in it.

    Raises `TrainperfError` if it cannot be started.
    """
    own = Path(run_file).parent
    trackers = tracker_environment(own / SCRATCH)
    given = {**GPU_MEMORY, **os.environ}
    given.setdefault(LOGS, str(own / SCRATCH / "torchrun"))
    env = {**given, **trackers, **run.env, "TRAINPERF_RUN": run_file}
    before = env.get("PYTHONPATH")
    env["PYTHONPATH"] = str(BOOTSTRAP) + (os.pathsep + before if before else "")
    _check_command(run, env)
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def die_with_parent() -> None:
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    try:
        return subprocess.Popen(
            view.enclosed(_given(run, own), run.guarded, own / VIEW, [own], _laid(run, own)),
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


def _contents(run: Run) -> Mapping[str, bytes]:
    """The files that are not run as they stand: those that are changed, and a notebook."""
    script = os.path.realpath(os.path.join(run.cwd, *run.command[1:2]))
    if not is_notebook(script) or script in map(os.path.realpath, run.sources):
        return run.sources
    return {**run.sources, script: Path(script).read_bytes()}


def _kept(paths: Iterable[str], folder: Path) -> dict[str, str]:
    return {
        path: str(folder / f"source-{n}{Path(path).suffix if is_configuration(path) else ''}")
        for n, path in enumerate(paths)
    }


def _laid(run: Run, folder: Path) -> dict[str, str | None]:
    """Where what is laid into the view is kept, by the paths of the user's; None: to be gone."""
    return {
        path: None if data is None else str(folder / f"file-{n}")
        for n, (path, data) in enumerate(run.files.items())
    }


def _given(run: Run, folder: Path) -> list[str]:
    """The command, in which a changed file of settings stands in place of the user's."""
    kept = {
        os.path.realpath(p): q for p, q in _kept(run.sources, folder).items() if is_configuration(p)
    }

    def given(word: str) -> str:
        name, equals, value = word.rpartition("=")
        instead = kept.get(os.path.realpath(os.path.join(run.cwd, value))) if kept else None
        return word if instead is None else f"{name}{equals}{instead}"

    return [run.command[0], *map(given, run.command[1:])]


def _check_command(run: Run, env: Mapping[str, str]) -> None:
    """Refuse a command that cannot be found: inside a view it would fail too late."""
    name = run.command[0]
    place = os.path.join(run.cwd, name) if os.sep in name else name
    if shutil.which(place, path=env.get("PATH")) is None:
        reason = os.strerror(errno.EACCES if os.path.isfile(place) else errno.ENOENT)
        raise TrainperfError(
            f"cannot start {name}: {reason}",
            hint="check the command after `--`, as you would type it in this folder",
        )


@contextmanager
def interruptible() -> Iterator[Interrupted]:
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


class Output:
    """A file that processes print to; it begins anew where it has grown too large.

    A context manager.
    """

    def __init__(self, folder: Path) -> None:
        self.file: IO[bytes] = (folder / OUTPUT).open("ab")
        self.file.truncate(0)

    def look(self) -> None:
        """Give its disk back, if it takes too much; what comes next is at its beginning."""
        if os.fstat(self.file.fileno()).st_size > MOST_BYTES:
            self.file.truncate(0)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *exc: object) -> None:
        self.file.close()


def output_tail(folder: Path) -> str:
    """The last of what a run printed; "" where the script has removed it, or put a pipe there."""
    with suppress(OSError), bounded.opened(folder / OUTPUT) as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL_BYTES))
        return in_traceback(file.read(TAIL_BYTES).decode(errors="replace"))
    return ""
