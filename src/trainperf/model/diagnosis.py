"""The answer: everything a report is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from trainperf.model.basics import Site
from trainperf.model.check import Check
from trainperf.model.facts import CallbackCost, Device, Framework, FunctionCost, Loop, PhaseUse
from trainperf.model.findings import Finding, NotTaken, Patch
from trainperf.model.lines import StepLines
from trainperf.model.outside import Outside
from trainperf.model.pipeline import Function
from trainperf.model.reported_parallel import ReportedParallel
from trainperf.model.running import RunningJob
from trainperf.model.timing import BetweenEpochs, OverTime, StartUp
from trainperf.model.torch.step import LogCall, StepPart, SyncPoint, Trace
from trainperf.model.training import Training
from trainperf.model.trials import Control, Proof, Stack, Trial, Trials
from trainperf.recording.machine.instance import Cost
from trainperf.recording.machine.machine import ContainerUse, Machine
from trainperf.recording.machine.storage import Channel, Objects, Reads
from trainperf.recording.run import Ending

Grade = Literal["settled", "probable", "not examined"]
"""How sure a verdict is. A probable one rests on times that vary, or on what no clock disturbs;
of one that was not examined, the text says what was not, and what would examine it."""

Bottleneck = Literal["input", "model", "host", "sync", "memory", "storage", "environment", "none"]

WorkUnit = Literal["real tokens", "samples", "steps"]


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


@dataclass(frozen=True)
class ExperimentChange:
    """A change that is faster and makes the training another one: in no patch unless asked for.

    `why` says what makes it another one: what the change does, or how the losses of one that was
    to keep the numbers differed (`losses_differ`). `before_per_s` is the work per second of the
    script as it is, or with the fixes `on_top` of which it was tried: in samples, or in steps of
    the script as it is where the size of its batches is not known (`unit`). Of `ways`, the trials
    that were faster, the first is the one that `finding` and `patch`, which holds nothing else,
    make: `trainperf fix --only ID`.
    """

    finding: Finding
    why: str
    losses_differ: bool
    unit: WorkUnit
    before_per_s: float
    ways: tuple[Trial, ...]
    patch: Patch


@dataclass(frozen=True)
class Verdict:
    """The answer in one sentence, and which side of the step it points to.

    `healthy` means that nothing worth repairing was found, by all probes and trials that
    apply. `utilization` is the accelerator utilisation against the 90 % line, None if not
    measured. `grade` says how sure the answer is.
    """

    bottleneck: Bottleneck
    text: str
    utilization: float | None = None
    healthy: bool = False
    grade: Grade = "settled"


@dataclass(frozen=True)
class TraceFile:
    """The Chrome trace that `--trace` wrote of so many steps, or the `reason` why there is none.

    `note` is what is to be said of it.
    """

    file: str
    steps: int = 0
    note: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ReportedTimes:
    """The times of the report; None where not measured (see `not_measured`).

    Seconds per step. `noise` is the relative half-width of the 95 % interval of the
    mean step; `spread` has the block means by phase. Real tokens are those that are no padding.
    """

    real_s: float | None
    resident_s: float | None
    input_s: float | None
    host_s: float | None
    steps: int
    samples_per_s: float | None
    startup_s: float | None
    noise: float | None
    spread: dict[str, tuple[float, ...]] = field(default_factory=dict)
    tokens_per_s: float | None = None
    real_tokens_per_s: float | None = None


@dataclass(frozen=True)
class ReportedStage:
    """One stage of the pipeline as reported; `share` is of the whole input time."""

    name: str
    where: Site | None
    seconds_per_step: float | None
    share: float | None
    function: Function | None = None
    detail: str = ""


@dataclass(frozen=True)
class DeviceMemory:
    """Counts of the framework's allocator on the GPU, in bytes; None: not known.

    `allocated_peak` is what tensors held at most, `reserved_peak` what the allocator
    had taken for them, of `total`. `retries` is how often it had to free its cache and
    ask again, `ooms` how often there was not enough even so.
    """

    allocated_peak: int | None = None
    reserved_peak: int | None = None
    total: int | None = None
    retries: int | None = None
    ooms: int | None = None


@dataclass(frozen=True)
class Overhead:
    """The cost of trainperf itself.

    `per_step_s` is the time inside its own hooks for each step of the trials' unchanged
    script, `share` its part of the step; `observing_s` and `trying_s` are what the
    diagnosis took, in seconds.
    """

    per_step_s: float | None
    share: float | None
    observing_s: float
    trying_s: float


@dataclass(frozen=True)
class Ignored:
    """A finding that a comment in the source says to leave out, and where the comment is."""

    finding: Finding
    comment: Site


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Everything a report is made of. The only thing reporters see; saved as JSON.

    The fields are the keys of the JSON report (docs/report-format.md).
    """

    format_version: int
    trainperf_version: str
    created: str  # ISO 8601, UTC
    script: str
    command: tuple[str, ...]
    cwd: str
    ending: Ending
    framework: Framework
    device: Device
    machine: Machine
    loop: Loop | None
    verdict: Verdict
    times: ReportedTimes
    startup: StartUp | None = None
    between_epochs: BetweenEpochs | None = None
    stages: tuple[ReportedStage, ...] = ()
    callbacks: tuple[CallbackCost, ...] = ()
    functions: tuple[FunctionCost, ...] = ()
    utilization: tuple[PhaseUse, ...] = ()
    findings: tuple[Finding, ...] = ()  # ranked, best first
    practices: tuple[Finding, ...] = ()  # time to accuracy: unranked, unpriced
    trials: tuple[Trial, ...] = ()
    trying: Trials | None = None  # how the trials were made; None: not asked for
    stack: Stack | None = None
    control: Control | None = None
    overhead: Overhead | None = None
    patch: Patch | None = None
    not_measured: tuple[NotTaken, ...] = ()
    notes: tuple[str, ...] = ()  # what was seen that a reader should know
    seconds: float = 0.0  # what the whole diagnosis took
    output_tail: str = ""  # the script's last output, where it failed
    lines: StepLines | None = None  # a step by lines of the user's own; None: too few samples
    step_parts: tuple[StepPart, ...] = ()  # in the order of a step
    sync_points: tuple[SyncPoint, ...] = ()  # the dearest first
    log_calls: tuple[LogCall, ...] = ()  # the dearest first
    device_memory: DeviceMemory | None = None
    traced: Trace | None = None  # operators of a step of PyTorch; None: none was traced
    parallel: ReportedParallel | None = None  # None: one process on one device
    container: ContainerUse | None = None
    reads: tuple[Reads, ...] = ()  # the files the script read, by volume
    objects: tuple[Objects, ...] = ()  # what it read from S3, by bucket
    channels: tuple[Channel, ...] = ()  # the inputs of its SageMaker job
    cost: Cost | None = None  # None: no price is known
    timeline: Timeline | None = None
    outside: Outside | None = None  # None: it was not seen, or there is nothing
    ignored: tuple[Ignored, ...] = ()  # findings and practices, as `# trainperf: ignore` says
    check: Check | None = None  # None: nothing was checked
    trace: TraceFile | None = None  # None: none was asked for
    training: Training | None = None  # None: no loop was seen
    experiment_changes: tuple[ExperimentChange, ...] = ()  # faster, but another training
    over_time: OverTime | None = None  # None: no run was long enough
    running: RunningJob | None = None  # None: what was diagnosed was started for it alone
    proofs: tuple[Proof, ...] = ()  # of the changes that were to be proved; the combined one last
    ended_by: str = ""  # the signal that killed the script, and what that usually means
