"""A job that ran already when it was diagnosed, and what was seen of it from outside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunningJob:
    """The job whose command was diagnosed, and what it took of the machine meanwhile.

    `pid` is the process that was asked for, `started_by` the one whose command was run: its
    launcher or parent, where it is another. `began` is ISO 8601, UTC. `cores` is how many it kept
    busy while it was diagnosed, None if that was not seen. `gpu_memory` is what it held of the
    GPUs before, in bytes, None if no GPU or driver tells. `changed` are files of its program that
    are newer than the job.
    """

    pid: int
    started_by: int
    began: str
    ended: bool
    cores: float | None
    gpu_memory: int | None
    changed: tuple[str, ...] = ()
