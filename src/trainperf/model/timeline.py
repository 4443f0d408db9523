"""How busy the machine was over the observed run, for a reader's eye."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A phase of the observed run; seconds since its start."""

    phase: str
    start: float
    end: float


@dataclass(frozen=True)
class Moment:
    """How busy the machine was at one moment; `t` in seconds since the start of the run.

    `cpu_cores` counts the script's processes, `machine_cpu_cores` everything. `gpu_percent`
    has one entry per GPU, None where the driver did not say. `rss` is bytes.
    """

    t: float
    cpu_cores: float | None
    machine_cpu_cores: float | None
    rss: int | None
    gpu_percent: tuple[float | None, ...] = ()
    read_bytes_s: float | None = None


@dataclass(frozen=True)
class Timeline:
    """The samples of the observed run, thinned to a few hundred, with its phases."""

    seconds: float
    cores: float
    phases: tuple[Span, ...]
    moments: tuple[Moment, ...]
