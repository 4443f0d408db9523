"""Training on several devices or in several processes: ranks, exchange, skew, scaling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from trainperf.model.basics import Missing, Site, known, taken
from trainperf.model.timing import Measure

RankEnding = Literal["measured", "failed", "lost another", "cut short"]
"""How a rank ended: of one that lost another, what that one says is the cause."""

NO_STEP = Missing("it recorded no step")
NOT_TIMED = Missing("it was not timed")


@dataclass(frozen=True)
class Rank:
    """One process of the job. Times are seconds per step of this process.

    `local` is the step with the exchange of gradients switched off, the ranks running
    free of each other. `ended` says in words why it is not "measured" ("never reported",
    "killed by SIGKILL in the real phase").
    """

    rank: int
    host: str
    pid: int | None
    ended: str
    ending: RankEnding = "measured"
    device: str = ""  # "CPU", "cuda:1", "2 logical CPUs"
    gpu_uuid: str | None = None  # of the first GPU it uses
    gpu: int | None = None  # the same one as NVML counts on its host; None: not known
    real: Measure | Missing = NO_STEP
    resident: Measure | Missing = NO_STEP
    local: Measure | Missing = NO_STEP
    input_: Measure | Missing = NO_STEP
    batch_size: int | None = None  # samples per step of this rank
    epoch_steps: int | None = None
    threads: int | None = None  # intra-op threads of the framework
    cores: tuple[int, ...] | None = None  # the cores it may run on


@dataclass(frozen=True)
class AllReduce:
    """All-reduces of the gradients' own sizes, timed alone, nothing else running.

    `seconds` is for all of a step's gradients, one call after another: a lower bound of
    what the exchange costs while training.
    """

    bytes: int
    seconds: float
    devices: int

    @property
    def bus_bytes_s(self) -> float:
        """Bus bandwidth, bytes per second: 2 (n - 1) / n times the bytes over the seconds.

        As NVIDIA's nccl-tests define it, to be set beside what the links can give.
        """
        return 2 * (self.devices - 1) / self.devices * self.bytes / self.seconds


@dataclass(frozen=True)
class Exchange:
    """How gradients are exchanged, and what that costs a step.

    `seconds_` is by difference: the real step less the slowest rank's step with the
    exchange switched off (or the probe of one process: with less without). `waiting_`
    is what the mean rank waits for the slowest in each step. Both in seconds; they do
    not overlap.
    """

    method: str  # "DistributedDataParallel", "MirroredStrategy", …
    backend: str  # "gloo", "nccl", "NcclAllReduce", …
    replicas: int
    seconds_: Measure | Missing
    waiting_: float | Missing
    bytes: int | None = None  # gradients that a replica gives away in a step
    all_reduce: AllReduce | Missing = NOT_TIMED

    @property
    def seconds(self) -> float:
        """Seconds of a step that the exchange adds; raises `NotMeasured`."""
        return taken(self.seconds_).seconds


@dataclass(frozen=True)
class Straggler:
    """A rank that the others wait for. `behind_s` is against the median rank's step.

    `phase` is where it shows: "input", "step". `cause` is in words, with its numbers;
    empty where nothing tells.
    """

    rank: int
    phase: str
    behind_s: float
    share: float  # of the real step
    cause: str = ""


@dataclass(frozen=True)
class ScalingPoint:
    """The same script on fewer devices, with the same batch per device.

    `efficiency` is its samples per second and device over those of one device.
    """

    devices: int
    real_s: float
    samples_per_s: float | None
    efficiency: float | None = None


@dataclass(frozen=True)
class Ddp:
    """A `DistributedDataParallel` as it was built, and what was seen of it.

    `unused` is how many parameters got no gradient in a step, None if not looked at.
    `synced` counts the backward passes with exchange per update, `micro_steps` all.
    """

    model: str
    where: Site | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # the keywords' effective values
    given: tuple[str, ...] = ()  # keywords that the call gives
    comm_hook: str = ""
    unused: int | None = None
    graph_is_static: bool | None = None
    micro_steps: float | None = None
    synced: float | None = None


@dataclass(frozen=True)
class Strategy:
    """A `tf.distribute` strategy as it was built, and what was seen of it."""

    cls: str
    where: Site | None = None
    replicas: int = 1
    workers: int = 1
    devices: tuple[str, ...] = ()
    cross_device_ops: str = ""
    models_outside: tuple[Site, ...] = ()  # models built outside of its scope
    distributed: bool | None = None  # whether the loop's dataset is a distributed one
    dataset_where: Site | None = None  # the user's call that made the loop's dataset


@dataclass(frozen=True)
class Parallel:
    """A job of several processes, or one process on several devices.

    `expected` is the number of processes the launcher announced; `absent` are the ranks
    of which there is no record. `replicas` counts model copies over the whole job.
    """

    expected: int
    replicas: int
    hosts: int
    processes: tuple[Rank, ...]
    absent: tuple[int, ...] = ()
    exchange: Exchange | None = None
    stragglers: tuple[Straggler, ...] = ()
    scaling: tuple[ScalingPoint, ...] = ()
    scaling_reason: str = ""  # why there are no, or not all, points
    ddp: tuple[Ddp, ...] = ()
    notes: tuple[str, ...] = ()  # ranks with other scripts or versions, records cut short

    @property
    def exchange_cost(self) -> Measure | None:
        """What exchanging gradients takes of a step; None where that is not known."""
        return None if self.exchange is None else known(self.exchange.seconds_)

    @property
    def unmeasured(self) -> tuple[int, ...]:
        """Ranks whose own step is not known where that of others is: they may be late."""
        timed = {one.rank for one in self.processes if isinstance(one.local, Measure)}
        return tuple(rank for rank in range(self.expected) if rank not in timed) if timed else ()
