"""A command to be run, and the recording of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trainperf.recording.machine.machine import ContainerUse, Gpu
from trainperf.recording.machine.storage import Objects, Reads

FORMAT_VERSION = 2
"""Of what is saved: a recording, a diagnosis."""


@dataclass(frozen=True)
class Epoch:
    """A pass over the data with the pause after it, as it was observed.

    `steps` of the loop in `seconds`, in which starting the input is; `pause_s` of them
    pass between epochs in other things: validation, callbacks. One that is `written` is a whole
    turn of what the script repeats (an epoch, or a `fit`, with all that follows it): a leg lets
    it come to its end as it is written, and all of it counts.
    """

    steps: int
    seconds: float
    pause_s: float = 0.0
    written: bool = False


@dataclass(frozen=True)
class Leg:
    """How a leg of a trial warms up before its first slice.

    After `warm_up_steps` steps, and `warm_up_epochs` whole passes over the data, it
    stops by itself and waits for its turn. `ranks` is how many processes of it train.
    Slices of steps hold a multiple of `waits_every`: the script waits for its devices that often.
    Where it `settles`, the first steps of each slice count for nobody, however slow they are.
    Of a sampler that draws far more than there are items, `pass_steps` count as a pass; 0: none do.
    """

    warm_up_steps: int
    warm_up_epochs: int = 0
    ranks: int = 1
    waits_every: int = 1
    settles: bool = True
    pass_steps: int = 0


@dataclass(frozen=True)
class Run:
    """A run to make: the command, where to start it, how to observe it.

    `command` is what would be typed in a shell. `label` names it in messages
    (`train.py`). `steps` is the number of real steps to time, or None to let the
    time decide. `budget_s` is what the whole diagnosis may take, from `began` on
    (`time.monotonic()`; None: from the start of the run). Measuring goes on until the times
    are settled or a third of that is over; stages and probes leave the rest to the trials
    if any come after (`trials`). `measure_s` and `extra_s` are upper limits for the two,
    None for no other than these. `stall_s` is how long the run may go without a sign of
    progress before it is given up.

    `sources` are file contents to run in place of those at their (absolute) paths;
    the folders in `guarded` are seen copy-on-write, and hold `files` in them in place of their own,
    None for one that is not there. `seed` seeds Python and the
    frameworks before the script can. A run with `leg` is one leg of a trial: it warms
    up, stops, and goes on slice by slice. `board` is a folder by which the ranks of a job
    agree on their phases where each has a trainperf of its own; None: all are in this run.
    `devices` lets a process see so many devices only. With `trace`, a few steps are traced by
    the framework's own tracer when all else was timed. A `plain` run is not observed: only its
    `sources` are laid over.
    """

    command: tuple[str, ...]
    cwd: str
    label: str
    env: dict[str, str] = field(default_factory=dict)
    measure_s: float | None = None
    extra_s: float | None = None
    stall_s: float = 300.0
    budget_s: float = 180.0
    began: float | None = None
    trials: bool = False
    sources: dict[str, bytes] = field(default_factory=dict)
    guarded: tuple[str, ...] = ()
    files: dict[str, bytes | None] = field(default_factory=dict)
    seed: int | None = None
    leg: Leg | None = None
    board: str | None = None
    devices: int | None = None
    trace: bool = False
    plain: bool = False


class Ending(StrEnum):
    """How a run ended."""

    MEASURED = "measured"  # the plan was complete and trainperf stopped the script
    FINISHED = "finished"  # the script ended by itself, exit status 0
    FAILED = "failed"  # the script ended by itself, with an error
    SIGNALLED = "signalled"  # a signal killed it, and it was not ours
    STALLED = "stalled"  # no sign of progress for `stall_s`
    OUT_OF_BUDGET = "out of budget"
    INTERRUPTED = "interrupted"  # Ctrl-C

    @property
    def complete(self) -> bool:
        """Whether nothing cut the run short."""
        return self in (Ending.MEASURED, Ending.FINISHED)

    @property
    def badly(self) -> bool:
        """Whether the script failed, was killed, or stood still."""
        return self in (Ending.FAILED, Ending.SIGNALLED, Ending.STALLED)


Event = dict[str, Any]


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment. What the driver does not offer is None."""

    index: int
    utilization_percent: float | None = None  # upper bound: "a kernel was running"
    memory_used: int | None = None
    power_w: float | None = None
    sm_clock_mhz: int | None = None
    throttle: tuple[str, ...] | None = None  # None: the driver does not say
    sm_active: float | None = None  # GPM, Hopper and later: share of SMs with a warp
    tensor_active: float | None = None  # GPM
    dram_active: float | None = None  # GPM: share of peak memory bandwidth


@dataclass(frozen=True)
class HostSample:
    """The user's process tree, and the machine around it, at one moment.

    `others_cores` are those that other processes, or a hypervisor, took of the cores that
    the script may use; `threads_running` and `threads_waiting` are how many threads of the
    script were on a core, and ready but without one, on average since the last sample.
    """

    cpu_cores: float  # cores kept busy by the process tree since the last sample
    machine_cpu_cores: float  # cores kept busy by everything, ours included
    rss: int
    processes: int
    threads: int
    read_bytes_s: float | None = None
    others_cores: float | None = None  # None: not told, as are the next two
    threads_running: float | None = None
    threads_waiting: float | None = None
    quota_periods: int | None = None  # of the CPU quota since the last sample; None: no quota
    quota_throttled: int | None = None  # of these, the ones in which it was used up


@dataclass(frozen=True)
class Sample:
    """Readings of the samplers at `t`, on the clock that stamps the steps.

    `t` is `time.monotonic()`, seconds.
    """

    t: float
    host: HostSample | None
    gpus: tuple[GpuSample, ...] = ()


@dataclass(frozen=True)
class Recording:
    """The record of one run.

    `events` holds the lines each observed process wrote, by process id, in order.
    `started` and `ended` are on the clock of the events (`time.monotonic()`).
    `shm_used` is what was taken of `/dev/shm` meanwhile, at most; bytes. `container` is what the
    control groups counted meanwhile. `reads` are the files that the script read, by volume,
    `objects` what it read from S3.
    """

    run: Run
    ending: Ending
    exit_status: int | None
    started: float
    ended: float
    events: dict[int, tuple[Event, ...]]
    samples: tuple[Sample, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_reason: str = ""  # why there are no GPU samples
    sampling_note: str = ""  # GPUs lost, samples thinned
    output_tail: str = ""
    shm_used: int | None = None
    container: ContainerUse | None = None
    reads: tuple[Reads, ...] = ()
    objects: tuple[Objects, ...] = ()

    def of(self, kind: str) -> Iterator[Event]:
        """The events of a kind, of all processes."""
        return (event for own in self.events.values() for event in own if event["e"] == kind)
