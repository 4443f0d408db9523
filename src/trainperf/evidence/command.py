"""The command as it was typed, and as the processes that it started were."""

from __future__ import annotations

from collections.abc import Sequence

from trainperf.evidence.events import Observed
from trainperf.model import Recording
from trainperf.run.python_command import program


def words(recording: Recording) -> list[str]:
    """Return the words of the command and of every process that it started.

    A launcher or a shell script may give the training script options of its own.
    """
    found = list(recording.run.command)
    for events in recording.events.values():
        for event in events:
            if event["e"] == "hello":
                found += map(str, event.get("argv") or ())
    return found


def reaches_script(recording: Recording, observed: Observed) -> bool:
    """Return whether words put at the end of the command become arguments of the script.

    They do where the command ends as that of the process that trains does: with all words of the
    script, or with its name where it has none.
    """
    argv = [str(word) for word in (observed.first("hello") or {}).get("argv") or ()]
    last = max(1, len(_of_script(argv)))
    return bool(argv) and list(recording.run.command[-last:]) == argv[-last:]


def _of_script(argv: Sequence[str]) -> Sequence[str]:
    """The words that are the script's own, of those that an interpreter was started with."""
    found = program(argv)
    return argv[found.at :] if found is not None else ()
