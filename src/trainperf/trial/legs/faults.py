"""Why a leg cannot go on, from what its processes recorded and how they ended."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trainperf.child.process.process import text_in_words
from trainperf.model import Event
from trainperf.model.words import signal_name
from trainperf.recording.cells import is_configuration
from trainperf.run.event_files import training
from trainperf.run.spawn import output_tail
from trainperf.trial.ranks import place

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


class LegFailed(Exception):  # noqa: N818 - an outcome, with its reason
    """A leg cannot go on: it ended, crashed, hung or was killed."""


class OutOfTime(LegFailed):
    """A leg lacked nothing but time."""

    def __init__(self, reason: str = "was still starting when the time was over") -> None:
        super().__init__(reason)


class Ended(LegFailed):
    """The training of a leg came to its end by itself."""

    def __init__(self, reason: str = "ended before it could be measured") -> None:
        super().__init__(reason)


class NotCompared(LegFailed):
    """The script as it is cannot go on, so that nothing is said of a change of it."""

    def __init__(self, failure: LegFailed) -> None:
        super().__init__(f"could not be compared: the script as it is {failure}")


class OutOfMemory(LegFailed):
    """A leg found no memory, of the machine or of a GPU: it may where fewer others live."""


def why(
    status: int | None,
    events: Events,
    folder: Path,
    ranks: int = 1,
    gone: Sequence[int] = (),
) -> LegFailed:
    """Why a leg ended, with the exit status of what was started, None while that still runs.

    Of several ranks some are `gone`: what took the first of them took the others along. A rank that
    was killed makes the others fail in their next exchange, but for those that the launcher ends
    by SIGTERM; of several errors the earliest counts. SIGKILL is what the kernel ends a process
    with where memory runs out; so do others, but then the leg is no worse for being tried again.
    """
    tail = output_tail(folder)
    reason = _reason(status, events, tail, ranks, gone)
    if not reason:
        return Ended()
    errors = [one for recorded in events.values() for one in recorded if one["e"] == "error"]
    texts = [f"{one['type']}: {one['text']}" for one in errors] or [tail]
    memory = not errors and status == -signal.SIGKILL
    memory = memory or any(OUT_OF_MEMORY.search(text) for text in texts)
    return OutOfMemory(reason) if memory else LegFailed(reason)


def _reason(status: int | None, events: Events, tail: str, ranks: int, gone: Sequence[int]) -> str:
    """The reason in words; "" where the training came to its end."""
    errors = sorted(
        (event["t"], pid, event["type"], str(event["text"]))
        for pid, own in events.items()
        for event in own
        if event["e"] == "error"
    )
    if ranks > 1:  # a helper of theirs may have failed, and done no harm
        errors = [error for error in errors if place(events[error[1]]) is not None] or errors
    failed = {pid for _, pid, _, _ in errors}
    for name, number in KILLED.findall(tail) if ranks > 1 else ():
        if name != signal.SIGTERM.name and int(number) not in failed:
            return f"lost {_rank(int(number), events) or 'a rank'}, {killed(name)}"
    if errors:
        _, pid, kind, text = errors[0 if ranks > 1 else -1]
        rank, told = _rank(pid, events), text_in_words(kind, text).removesuffix(": ")
        return f"fails{f' on {rank}' if rank else ''}: {told}"
    if gone:
        if any(event["e"] == "exit" for event in events.get(gone[0], ())):
            return ""
        return f"lost {_rank(gone[0], events)}, which was killed or ended without an error"
    if not training(events) and (status or 0) >= 0:
        last = tail.strip().rpartition("\n")[2][:200]
        return "made no step" + (f": {last}" if status and last else "")
    return how_ended(status) if status else ""


def how_ended(status: int, tail: str = "") -> str:
    """How a process ended that failed, with the last line that it printed."""
    if status < 0:
        return f"was {killed(signal_name(status))}"
    last = tail.strip().rpartition("\n")[2][:200]
    return f"ended with exit status {status}" + (f": {last}" if last else "")


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


def _rank(pid: int, events: Events) -> str:
    """The rank of a process, "" in a job of one process."""
    known = place(events.get(pid, ()))
    return f"rank {known['rank']}" if known is not None else ""
