"""A place in a job, and the checks that all launchers' variables go through."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainperf.errors import TrainperfError

MOST_RANKS = 1_000_000
"""No job has more; a damaged record may say so, and each that is absent is named."""


@dataclass(frozen=True)
class Place:
    """One of the `world_size` places that a launcher gave out; there are at least two.

    Mostly one rank of the job; one host of it where the launcher starts one process on
    each. `job_id` is the same in all places, and "" where nothing names the job.
    `restarts` counts how often the launcher started the whole job again. `by` names the
    launcher.
    """

    rank: int
    world_size: int
    by: str
    job_id: str = ""
    local_rank: int | None = None
    local_world_size: int | None = None
    node: int | None = None
    restarts: int = 0

    def __post_init__(self) -> None:
        """Raise `ValueError` where there is no such place."""
        if not 0 <= self.rank < self.world_size <= MOST_RANKS:
            raise ValueError(f"there is no rank {self.rank} of {self.world_size}")


def checked(
    environ: Mapping[str, str], by: str, names: tuple[str, str], **others: Any
) -> Place | None:
    """The place that two variables name, if they agree with each other."""
    rank, size = (number(environ, name) for name in names)
    if rank is None or size is None:
        there, missing = names if size is None else names[::-1]
        raise TrainperfError(
            f"{there} is set, but not {missing}: which rank of how many is this?",
            f"set {missing} as well, or unset {there}",
        )
    if size < 1 or not 0 <= rank < size:
        raise TrainperfError(
            f"{names[0]} is {rank} and {names[1]} is {size}: there is no such rank",
            f"ranks count from 0 to one less than {names[1]}",
        )
    return Place(rank, size, by, **others)


def number(environ: Mapping[str, str], name: str) -> int | None:
    """A variable's number, None where it is not set."""
    text = environ.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"-?[0-9]+", text):
        raise TrainperfError(
            f"{name} is {text!r}, which is not a number", f"correct {name}, or unset it"
        )
    return int(text)
