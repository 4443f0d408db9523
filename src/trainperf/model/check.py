"""The answer of `trainperf check`, for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Answer = Literal["passed", "failed", "undecided"]
"""The outcomes of a check; "undecided" is printed as "cannot tell"."""


@dataclass(frozen=True)
class Compared:
    """The baseline of a check: a file, and the runs that are saved in it.

    `sha256` is of the file's bytes as they were read, in hexadecimal. `runs` is how many runs
    of the script it holds.
    """

    file: str
    sha256: str
    created: str
    trainperf_version: str
    script: str
    hostname: str
    runs: int


@dataclass(frozen=True)
class CheckedTimes:
    """The times that were compared: seconds of the fastest steps, of a sample, of a run.

    `change` is relative (0.1: a tenth slower).
    """

    basis: Literal["step", "sample", "whole run"]
    before_s: float
    after_s: float
    change: float


@dataclass(frozen=True)
class Reason:
    """One thing that decides a check, or is only said with it (`outcome` "passed").

    `value` is the figure that was judged and `limit` what it was held against: for "time" the
    relative change, for "utilization" the share. None where there is none.
    """

    kind: Literal["time", "utilization"]
    outcome: Answer
    text: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Check:
    """The answer of a check: the worst of its reasons, and what the command exits with."""

    outcome: Answer
    exit_status: int
    text: str
    reasons: tuple[Reason, ...]
    times: CheckedTimes | None
    runs: int
    baseline: Compared
