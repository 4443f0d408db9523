"""The container's limits, as a run felt them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ContainerUse:
    """The counts of the control groups between the start and the end of the observed run.

    None where the kernel does not say. `throttled_share` is the share of the periods of
    the CPU quota in which the group was stopped for having used it up, `throttled_s` the
    time its threads stood still for it (summed over cores). `*_pressure` are shares of
    the time in which some task waited for the resource (Linux's pressure stall
    information), of the group or else of the machine: `pressure_of`. Memory is bytes, the
    peak without page cache that the kernel can drop; `memory_events` counts "high", "max",
    "oom" and "oom_kill". `swapped_in` and `swapped_out` are bytes of the whole machine.
    """

    seconds: float
    quota_cores: float | None = None
    throttled_share: float | None = None
    throttled_s: float | None = None
    cpu_pressure: float | None = None
    memory_limit: int | None = None
    memory_peak: int | None = None
    memory_pressure: float | None = None
    memory_events: tuple[tuple[str, int], ...] = ()
    io_pressure: float | None = None
    swapped_in: int | None = None
    swapped_out: int | None = None
    pressure_of: str = ""  # "container", "machine"; "" where the kernel does not say
