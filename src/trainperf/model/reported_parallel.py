"""A job of several processes or devices, as reported."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.model.parallel import AllReduce, Ddp, Overlap, ScalingPoint, Straggler, Strategy
from trainperf.recording.run import Link


@dataclass(frozen=True)
class ReportedRank:
    """One process of the job; times are seconds per step, None where not measured.

    `local_s` is the step with the exchange of gradients switched off, `waits_s` what the
    rank waits for the slowest one, by that step. `ended` is "measured", or in words what
    happened to it.
    """

    rank: int
    host: str
    pid: int | None
    ended: str
    local_rank: int | None
    device: str
    real_s: float | None
    resident_s: float | None
    local_s: float | None
    input_s: float | None
    waits_s: float | None
    batch_size: int | None
    epoch_steps: int | None
    threads: int | None
    cores: tuple[int, ...] | None


@dataclass(frozen=True)
class ReportedExchange:
    """How gradients are exchanged, and what that costs a step.

    `low_s` and `high_s` are the 95 % interval of `seconds_per_step`; where `low_s` is 0
    the cost does not stand out of the noise. `share` is of the real step. `waiting_s` is
    what the mean rank waits for the slowest one in each step.
    """

    method: str
    backend: str
    replicas: int
    seconds_per_step: float | None
    low_s: float | None
    high_s: float | None
    share: float | None
    waiting_s: float | None
    bytes: int | None
    buckets: tuple[int, ...]
    all_reduce: AllReduce | None
    link: Link | None
    overlap: Overlap | None


@dataclass(frozen=True)
class ReportedParallel:
    """A job of several processes, or one process on several devices.

    `expected` is the number of processes that the launcher announced, `absent` are those
    of which there is no record. `break_even_batch` is the batch per replica from which
    so many replicas give more samples per second than one, None where not known.
    """

    expected: int
    replicas: int
    hosts: int
    launcher: str
    absent: tuple[int, ...]
    ranks: tuple[ReportedRank, ...]
    exchange: ReportedExchange | None
    stragglers: tuple[Straggler, ...]
    scaling: tuple[ScalingPoint, ...]
    scaling_reason: str
    break_even_batch: float | None
    ddp: tuple[Ddp, ...]
    strategy: Strategy | None
