"""The tracer of a framework, as the loop that is traced knows it."""

from __future__ import annotations

from typing import Any, Protocol


class Tracer(Protocol):
    """The tracer of a framework."""

    def refusal(self) -> str:
        """Why it cannot be used now, "" if it can."""

    def start(self) -> None:
        """Begin to trace."""

    def step_begins(self, number: int) -> None:
        """Mark the begin of a step, in the way the framework's own tools know steps by."""

    def step_ends(self) -> None:
        """Mark its end."""

    def trace_passes(self) -> None:
        """Have what the verdict rests on be traced as well, behind the steps."""

    def stop(self) -> int:
        """Wait for the devices, and stop; return how many events there are."""

    def save(self, folder: str, name: str) -> dict[str, Any]:
        """Write what was traced to files in `folder` whose names begin with `name`.

        Returns what there is: `events`, a Chrome trace; `mark`, what stands before the
        number of a step in the names of its marks; `profile`, a folder for TensorBoard;
        `notes`, sentences.
        """

    def trace_passes_alone(self) -> None:
        """Nothing was traced: take what the verdict rests on by itself."""
