"""The signal that killed a script, and what that usually means."""

from __future__ import annotations

from trainperf.model import Ending, Recording
from trainperf.model.words import seconds, signal_name

MEANINGS = {
    "SIGABRT": "it gave itself up: a failed assertion, or an exception of C++ that nobody caught",
    "SIGBUS": "memory that is not there: `/dev/shm` or a mapped file may be cut short",
    "SIGFPE": "a division by zero of whole numbers, in compiled code",
    "SIGILL": "an instruction that this processor does not have",
    "SIGKILL": "as the kernel does where memory runs out, and who limits a job",
    "SIGSEGV": "a segmentation fault, in compiled code",
    "SIGTERM": "somebody asked it to end",
    "SIGXCPU": "its limit of processor time is used up",
}


def ended_by(recording: Recording) -> str:
    """Return the signal that killed the script, what that means, and when it came; "" if none."""
    status = recording.exit_status
    if recording.ending is not Ending.SIGNALLED or status is None:
        return ""
    name = signal_name(status)
    counted = dict(recording.container.memory_events) if recording.container is not None else {}
    if name == "SIGKILL" and counted.get("oom_kill"):
        meaning = "by the kernel, as the memory of its container ran out"
    else:
        meaning = MEANINGS.get(name, "")
    after = f"{seconds(recording.ended - recording.started)} after its start"
    return ", ".join(one for one in (name, meaning, after) if one)
