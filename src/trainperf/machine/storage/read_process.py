"""Look at the files in a process of its own: one that a file system may keep for ever.

A thread would not do. Who asks a dead network share or a FUSE program that hangs cannot be
killed before it answers, and a process that has such a thread cannot end.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import trainperf
from trainperf.machine.storage import reads
from trainperf.model import InstanceType, Recording

DEADLINE_S = 15.0
"""Seconds after which the process is left behind, killed: it ends when the kernel lets it."""

POLL_S = 0.1

_CODE = "from trainperf.machine.storage.read_process import serve; serve()"

_WHERE = str(Path(trainperf.__file__).parent.parent)


def probe(
    recording: Recording,
    instance: InstanceType | None = None,
    deadline_s: float = DEADLINE_S,
    interrupted: Callable[[], bool] = lambda: False,
) -> reads.Found:
    """Return what `reads.examined` does, and come back within `deadline_s` in any case.

    Of a volume that does not answer the sizes are known at most, and the reason is said.
    `interrupted` says whether the user wants an end: then what is known so far is returned.
    """
    events = reads.of_files(recording)
    if not events:
        return reads.examined(events)
    try:
        process = subprocess.Popen(
            # -P: a module of the user's in the current folder is not one of ours.
            (sys.executable, "-P", "-c", f"import sys; sys.path.append({_WHERE!r}); {_CODE}"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as error:
        return (), f"the files could not be looked at: {error.strerror}"
    told: list[reads.Found] = []
    thread = threading.Thread(
        target=_talk, args=(process, (os.getpid(), events, instance), told), daemon=True
    )
    thread.start()
    until = time.monotonic() + deadline_s
    while thread.is_alive() and time.monotonic() < until and not interrupted():
        thread.join(POLL_S)
    late = thread.is_alive()
    process.kill()
    if not late:
        process.wait()
    if told:
        return told[-1]
    if late:
        return (), "not looked at: interrupted" if interrupted() else reads.NO_ANSWER
    return (), "looking at the files failed"


def _talk(process: subprocess.Popen[bytes], question: Any, told: list[reads.Found]) -> None:
    """Ask, and take what it tells, the latest last, until it ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin as to:
            pickle.dump(question, to)
        while True:
            told.append(pickle.load(process.stdout))
    except (EOFError, OSError, ValueError, pickle.UnpicklingError):
        return


def serve() -> None:
    """Be that process: read the question from stdin, write what is known to stdout."""
    parent, events, instance = pickle.load(sys.stdin.buffer)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    out: IO[bytes] = sys.stdout.buffer
    if os.getppid() != parent:
        os._exit(1)

    def tell(found: reads.Found) -> None:
        pickle.dump(found, out)
        out.flush()

    tell(reads.examined(events, instance=instance, tell=tell))
