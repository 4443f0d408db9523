"""Why a leg cannot go on, in words, from what its processes recorded and how they ended."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trainperf.model import Event
from trainperf.model.words import signal_name
from trainperf.recording.cells import is_configuration
from trainperf.run.event_files import training
from trainperf.run.spawn import output_tail
from trainperf.trial.ranks import place

ENDED = "ended before it could be measured"
OUT_OF_MEMORY = re.compile(
    r"out ?of ?memory|MemoryError|Resource_?Exhausted|\bOOM\b|ALLOC_FAILED|SIGKILL"
    r"|(?:cannot|can't|could not|failed to|unable to) allocate|insufficient shared memory"
    r"|killed by signal: (?:Killed|Bus error)",
    re.IGNORECASE,
)
"""In the words of Python, PyTorch, TensorFlow, CUDA's libraries, a `DataLoader` and torchrun."""
KILLED = re.compile(r"\((SIG[A-Z0-9]+)\) received by PID (\d+)")
"""As torchrun prints it."""

Events = Mapping[int, Sequence[Event]]


def why(status: int, events: Events, folder: Path, ranks: int = 1) -> str:
    """Why a leg ended by itself, with the exit status of what was started.

    Where one of several ranks fails, the others, and what started them, fail because of
    it: the first error counts.
    """
    errors = [
        (event["t"], pid, event)
        for pid, recorded in events.items()
        for event in recorded
        if event["e"] == "error"
    ]
    if errors:
        _, pid, error = (min if ranks > 1 else max)(errors, key=lambda one: one[0])
        return _fails(error, _rank(pid, events))
    if status < 0:
        return f"was {killed(signal_name(status))}"
    for name, number in KILLED.findall(_tail(folder)) if ranks > 1 else ():
        if name != signal.SIGTERM.name:  # that is what torchrun sends to the others
            return f"lost {_rank(int(number), events) or 'a rank'}, {killed(name)}"
    if not training(events):
        tail = _tail(folder).strip().rpartition("\n")[2][:200]
        return "made no step" + (f": {tail}" if status and tail else "")
    if status:
        return f"ended with exit status {status}"
    return ENDED


def ran_out_of_memory(status: int | None, events: Events, folder: Path) -> bool:
    """Whether a leg ended as it found no memory, of the machine or of a GPU.

    `status` is None while what started it still runs. SIGKILL is what the kernel ends a process
    with where memory runs out; so do others, but then the leg is no worse for being tried again.
    """
    errors = [one for recorded in events.values() for one in recorded if one["e"] == "error"]
    if errors:
        return any(OUT_OF_MEMORY.search(f"{one['type']}: {one['text']}") for one in errors)
    return status == -signal.SIGKILL or OUT_OF_MEMORY.search(_tail(folder)) is not None


def why_ranks(gone: Sequence[int], events: Events, folder: Path) -> str:
    """Why ranks are gone, seen at once: what took the first of them took the others along.

    A rank that was killed makes the others fail in their next exchange, but for those that the
    launcher ends by SIGTERM; of several errors the earliest counts. One that failed may end by
    a signal as well, as what it leaves behind breaks off.
    """
    told = {int(number): name for name, number in KILLED.findall(_tail(folder))}
    failed = {
        pid: event["t"]
        for pid, recorded in events.items()
        for event in reversed(recorded)
        if event["e"] == "error" and place(recorded) is not None
    }
    shot = [pid for pid in gone if pid not in failed and told.get(pid, "SIGTERM") != "SIGTERM"]
    first = next(iter(shot), None) or min(failed, key=lambda pid: failed[pid], default=gone[0])
    return why_rank(first, events, folder)


def why_rank(pid: int, events: Events, folder: Path) -> str:
    """Why one rank is gone while what started it still runs, or has just ended."""
    rank = _rank(pid, events)
    errors = [event for event in events.get(pid, ()) if event["e"] == "error"]
    if errors:
        return _fails(errors[0], rank)
    if any(event["e"] == "exit" for event in events.get(pid, ())):
        return ENDED
    for name, number in KILLED.findall(_tail(folder)):
        if int(number) == pid:
            return f"lost {rank}, {killed(name)}"
    return f"lost {rank}, which was killed or ended without an error"


def unpatched(sources: Iterable[str], events: Events) -> str | None:
    """The first changed source that is not what runs; a script may read its own.

    Of several processes that train, each has to run it; one that was forked after it was
    read has it from another.
    """
    trains = training(events)
    fresh = [one for one in trains.values() if any(event["e"] == "hello" for event in one)]
    ran = [_patched(one) for one in fresh] if len(trains) > 1 else []
    anywhere = set().union(*map(_patched, events.values()))
    for path in sources:
        if is_configuration(path):  # given in the command, in place of the user's
            continue
        real = os.path.realpath(path)
        if real not in anywhere or any(real not in one for one in ran):
            return path
    return None


def killed(name: str) -> str:
    """In words that a signal ended a process."""
    memory = ", as when memory runs out" if name == signal.SIGKILL.name else ""
    return f"killed by {name}{memory}"


def _patched(events: Sequence[Event]) -> set[str]:
    return {os.path.realpath(event["file"]) for event in events if event["e"] == "patched"}


def _fails(error: Event, rank: str) -> str:
    text = str(error["text"]).strip().partition("\n")[0][:200]
    words = f"fails on {rank}" if rank else "fails"
    return f"{words}: {error['type']}: {text}" if text else f"{words}: {error['type']}"


def _rank(pid: int, events: Events) -> str:
    """The rank of a process, "" in a job of one process."""
    known = place(events.get(pid, ()))
    return f"rank {known['rank']}" if known is not None else ""


def _tail(folder: Path) -> str:
    with suppress(OSError):
        return output_tail(folder)
    return ""
