"""The trace that `--trace` asks for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TraceFile:
    """The trace that `--trace` wrote, or the `reason` why it wrote nothing.

    `file` holds a Chrome trace of `steps` of the loop, of so many `processes`; `profile` is the
    folder of the same for TensorBoard, "" without TensorFlow. `notes` say what is left out.
    """

    file: str
    steps: int = 0
    processes: int = 0
    profile: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""
