"""The values that travel through trainperf, from a run to a report.

    Run → Recording → Evidence → Finding… → Diagnosis → text

All are frozen. All times are seconds, all memory is bytes, all shares are fractions
of 1, unless a name says otherwise (`_percent`, `_mib`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeVar

from trainperf.errors import NotMeasured

FORMAT_VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """What stands where a number would stand if it had been taken: why it was not."""

    reason: str


def taken(value: T | Missing) -> T:
    """Return `value`, or raise `NotMeasured` with the reason why there is none."""
    if isinstance(value, Missing):
        raise NotMeasured(value.reason)
    return value


def is_taken(value: object) -> bool:
    """Say whether a number was taken."""
    return not isinstance(value, Missing)


# --------------------------------------------------------------------------- places


@dataclass(frozen=True)
class Site:
    """A place in the user's source: a call expression, or the head of a function.

    Lines count from 1; columns count characters from 0, the end is exclusive, as in
    `ast`. A site whose exact extent is not known has `end_line` 0.
    """

    file: str
    line: int
    function: str = ""
    col: int = 0
    end_line: int = 0
    end_col: int = 0

    @property
    def exact(self) -> bool:
        """Whether the extent of the expression is known, so that it can be edited."""
        return self.end_line > 0


# ------------------------------------------------------------------------------ run


@dataclass(frozen=True)
class Run:
    """What to start, where, and how it is to be observed.

    `command` is what would be typed in a shell. `label` names it in messages
    (`train.py`). `steps` is the number of real steps to time, or None to let the
    time decide. `measure_s` is the time in the steady loop that the three times may
    take, `extra_s` what the stages and probes after them may take; `stall_s` is how
    long the run may go without a sign of progress before it is given up.
    """

    command: tuple[str, ...]
    cwd: str
    label: str
    env: dict[str, str] = field(default_factory=dict)
    steps: int | None = None
    measure_s: float = 8.0
    extra_s: float = 6.0
    stall_s: float = 300.0
    budget_s: float = 180.0


class Ending(StrEnum):
    """How a run ended."""

    MEASURED = "measured"  # the plan was complete and trainperf stopped the script
    FINISHED = "finished"  # the script ended by itself, exit status 0
    FAILED = "failed"  # the script ended by itself, with an error
    SIGNALLED = "signalled"  # a signal killed it, and it was not ours
    STALLED = "stalled"  # no sign of progress for `stall_s`
    OUT_OF_BUDGET = "out of budget"
    INTERRUPTED = "interrupted"  # Ctrl-C


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
    temperature_c: int | None = None
    pcie_rx_bytes_s: float | None = None
    pcie_tx_bytes_s: float | None = None
    processes: int | None = None  # compute processes on the card, ours among them
    sm_active: float | None = None  # GPM, Hopper and later: share of SMs with a warp
    tensor_active: float | None = None  # GPM
    dram_active: float | None = None  # GPM: share of peak memory bandwidth


@dataclass(frozen=True)
class HostSample:
    """The user's process tree, and the machine around it, at one moment."""

    cpu_cores: float  # cores kept busy by the process tree since the last sample
    machine_cpu_cores: float  # cores kept busy by everything, ours included
    rss: int
    processes: int
    threads: int
    read_bytes_s: float | None = None
    write_bytes_s: float | None = None
    net_recv_bytes_s: float | None = None  # whole machine


@dataclass(frozen=True)
class Sample:
    """What the samplers saw at `t`, on the clock that stamps the steps.

    `t` is `time.monotonic()`, seconds.
    """

    t: float
    host: HostSample | None
    gpus: tuple[GpuSample, ...] = ()


@dataclass(frozen=True)
class Recording:
    """What one run left behind.

    `events` holds the lines each observed process wrote, by process id, in order.
    `started` and `ended` are on the clock of the events (`time.monotonic()`).
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


# -------------------------------------------------------------------------- machine


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML describes it; `None` where the driver does not say."""

    index: int
    name: str
    memory_total: int | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    max_sm_clock_mhz: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    gpm: bool = False


@dataclass(frozen=True)
class Machine:
    """The box, as far as a process in it can see.

    `cores` is what the process may really use: the smallest of the visible cores,
    the affinity mask and the cgroup's CPU quota. `memory_limit` is the smaller of
    the physical memory and the cgroup's limit.
    """

    hostname: str
    os: str
    python: str
    cpu_model: str
    visible_cores: int
    affinity_cores: int
    quota_cores: float | None
    cores: float
    memory_total: int
    memory_limit: int
    memory_available: int
    shm_total: int | None = None
    shm_free: int | None = None
    disk_free: int | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_reason: str = ""  # why the list is empty, or some GPUs are not in it
    driver: str | None = None
    driver_cuda: str | None = None


# ------------------------------------------------------------------------- evidence


@dataclass(frozen=True)
class Framework:
    """The framework the script trains with, as the script's own process saw it."""

    name: Literal["tensorflow", "torch", ""]
    version: str
    keras: str | None = None  # version of Keras, or of tf_keras
    legacy_keras: bool = False
    built_with_cuda: bool | None = None


@dataclass(frozen=True)
class Device:
    """What the framework computes on: "CPU", or "GPU" with its name and count."""

    kind: Literal["CPU", "GPU"]
    name: str
    count: int


@dataclass(frozen=True)
class Measure:
    """Seconds per step over several blocks of steps.

    `seconds` is total time over total steps of all blocks; `blocks` are the means
    of runs of consecutive steps, several to a round; `low` and `high` are a 95 %
    interval of the mean from the spread between them (Student's t), or None with
    fewer than two. `rounds` are the means of the rounds in which phases alternate.
    `stalls` counts the runs that were left out because something held them up.
    """

    seconds: float
    steps: int
    blocks: tuple[float, ...]
    low: float | None = None
    high: float | None = None
    rounds: tuple[float, ...] = ()
    stalls: int = 0

    @property
    def noise(self) -> float:
        """Half the width of the interval as a share of the mean; 0.10 if unknown."""
        if self.low is None or self.high is None or self.seconds <= 0:
            return 0.10
        return (self.high - self.low) / (2 * self.seconds)


@dataclass(frozen=True)
class Times:
    """The three times of one step: as it is, with free input, and input alone.

    Reading one that was not taken raises `NotMeasured`. `host_s` is the part of a
    resident step spent outside the step function: callbacks, Python, logging.
    """

    real_: Measure | Missing
    resident_: Measure | Missing
    input_: Measure | Missing
    host_: float | Missing

    @property
    def real(self) -> float:
        """Seconds of one step of the loop as it is."""
        return taken(self.real_).seconds

    @property
    def resident(self) -> float:
        """Seconds of one step when the batch is already there."""
        return taken(self.resident_).seconds

    @property
    def input(self) -> float:
        """Seconds the pipeline needs to deliver one step's data, the model idle."""
        return taken(self.input_).seconds

    @property
    def host(self) -> float:
        """Seconds of a resident step spent outside the step function."""
        return taken(self.host_)

    @property
    def noise(self) -> float:
        """Relative noise of the times: the largest of the measured ones."""
        measured = [m.noise for m in (self.real_, self.resident_) if isinstance(m, Measure)]
        return max(measured, default=0.10)


@dataclass(frozen=True)
class Function:
    """A function of the user's, with where it is defined."""

    name: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Stage:
    """One stage of the input pipeline, timed by draining the prefix that ends in it.

    `op` is the name of the call that built it (`map`, `batch`, `from_generator`, …),
    `where` that call, `function` the user's function it applies. `arguments` holds
    the settings that matter, as Python values: `num_parallel_calls` (None where the
    stage is serial, -1 for AUTOTUNE), `deterministic`, `buffer_size`, `batch_size`,
    `drop_remainder`, `cycle_length`, `cache_file`, `count`, `workers`,
    `use_multiprocessing`, `max_queue_size`.

    `seconds_per_step` is what this stage adds to the time of its prefix, for the
    data of one step; `cumulative` is the whole prefix. `elements_per_step` is how
    many elements leave the stage in one step. `first_s` is the time to its first
    element. `parallelised_by_default` says that tf.data runs this serial-looking
    stage in parallel by itself.
    """

    index: int
    op: str
    seconds_per_step_: float | Missing
    cumulative_: float | Missing
    where: Site | None = None
    function: Function | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    elements_per_step: float | None = None
    element_bytes: int | None = None
    cardinality: int | None = None  # elements in all; None unknown, -1 infinite
    first_s: float | None = None
    ops: tuple[str, ...] = ()  # op types in the function's graph
    stateful_random: bool = False
    python: bool = False  # py_function or numpy_function inside
    parallelised_by_default: bool = False
    by_user: bool = True  # False for what the framework appended (Keras adapters)

    @property
    def seconds_per_step(self) -> float:
        """Seconds this stage adds to the input of one step; raises `NotMeasured`."""
        return taken(self.seconds_per_step_)

    @property
    def cumulative(self) -> float:
        """Seconds the pipeline up to here needs for one step; raises `NotMeasured`."""
        return taken(self.cumulative_)


@dataclass(frozen=True)
class CallbackCost:
    """What one Keras callback costs; seconds per call of each hook.

    `batch_s` adds `on_train_batch_begin` and `_end`; `epoch_s` likewise for epochs,
    None where no epoch ended while observed. `builtin` callbacks are Keras's own
    (`History`, `ProgbarLogger`).
    """

    name: str
    batch_s: float
    batches: int
    epoch_s: float | None = None
    where: Site | None = None
    builtin: bool = False
    hooks: dict[str, float] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)  # save_freq, histogram_freq, …


@dataclass(frozen=True)
class FunctionCost:
    """A function of the user's, and the share of stack samples it was found in.

    `share` counts samples with this function innermost among the user's own, on
    the thread named; `line` is the line seen most often; `calls_into` the library
    function most often found beneath it. `thread` is "main" or "worker" (threads
    that feed the pipeline).
    """

    name: str
    file: str
    line: int
    share: float
    thread: Literal["main", "worker"]
    samples: int
    calls_into: str = ""


@dataclass(frozen=True)
class LayerFacts:
    """A recurrent layer, or one that stops XLA, with the settings that matter.

    `config` has the constructor values as they are (`activation`,
    `recurrent_activation`, `unroll`, `use_bias`, `recurrent_dropout`, `reset_after`,
    `use_cudnn`, `cell` = class name of the wrapped cell). `where` is the call that
    built it.
    """

    name: str
    cls: str
    config: dict[str, Any] = field(default_factory=dict)
    where: Site | None = None
    supports_jit: bool = True


@dataclass(frozen=True)
class ModelFacts:
    """What a Keras model says of itself.

    `jit_requested` is the value given to `compile` ("auto", True, False), `jit` what
    came of it, `jit_blocker` the clause that turned XLA off, in words.
    """

    name: str
    cls: str
    parameters: int | None = None
    trained: bool = True
    run_eagerly: bool = False
    jit_requested: str | bool | None = None
    jit: bool | None = None
    jit_blocker: str = ""
    steps_per_execution: int = 1
    optimizer: str = ""
    learning_rate: float | None = None
    learning_rate_scheduled: bool = False
    policy: str = ""  # the dtype policy, e.g. "float32", "mixed_bfloat16"
    compute_layers: dict[str, int] = field(default_factory=dict)  # class → count
    recurrent: tuple[LayerFacts, ...] = ()
    jit_blocking_layers: tuple[str, ...] = ()
    compile_where: Site | None = None


@dataclass(frozen=True)
class StepFunction:
    """The function that updates the weights, in a loop the user wrote.

    `compiled` says whether it ran inside a `tf.function`; `where` is the head of its
    `def`, None where it is not a function of its own (the tape stands in the loop).
    """

    name: str
    compiled: bool
    where: Site | None = None
    jit: bool | None = None
    tape_where: Site | None = None


@dataclass(frozen=True)
class Retracing:
    """Tracings of the training function after its first: how many, over how many steps.

    `seconds` is what they took in all; `steps` the real steps they fell into.
    `cause` says what changed between the calls, in words. `where` is the head of
    the `def` of the function, if it is the user's.
    """

    function: str
    count: int
    steps: int
    seconds: float
    cause: str = ""
    where: Site | None = None


@dataclass(frozen=True)
class Padding:
    """How much of the padded sequences is padding.

    `mean_length` and `padded_length` are time steps; `bucketed_length` is what the
    mean padded length would be if the sequences seen were batched by length.
    """

    mean_length: float
    padded_length: float
    bucketed_length: float
    sequences: int
    where: Site | None = None


@dataclass(frozen=True)
class Probe:
    """The same work timed two ways in alternating blocks, inside the user's process.

    `ratio` is base over candidate (above 1: the candidate is faster), `low`/`high`
    its 95 % interval over the paired blocks. `one_off_s` is what setting the
    candidate up cost (tracing, compiling).
    """

    name: str
    base_s: float
    candidate_s: float
    ratio: float
    low: float
    high: float
    one_off_s: float = 0.0
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BetweenEpochs:
    """What passes between the last step of an epoch and the first of the next.

    `seconds` in all; the parts are None where they were not seen. `epoch_steps` is
    the length of an epoch in steps, if known.
    """

    seconds: float
    epochs_seen: int
    epoch_steps: int | None = None
    validation_s: float | None = None
    callbacks_s: float | None = None
    restart_s: float | None = None  # opening the iterator, to its first batch


@dataclass(frozen=True)
class StartUp:
    """From the start of the process to the end of the first step; seconds.

    `imports_s` is the framework's import, `setup_s` what the script did before its
    first step besides, `tracing_s` the tracing (and compiling) of the step function,
    `first_step_s` the first step with its tracing.
    """

    to_first_step_s: float
    imports_s: float | None = None
    setup_s: float | None = None
    tracing_s: float | None = None
    first_step_s: float | None = None
    warm_up_steps: int = 0


@dataclass(frozen=True)
class Loop:
    """The training loop that was timed.

    `kind` is how it takes its batches: "fit" (Keras drives), "iterator" (a loop over
    a dataset), "call" (a loop that calls `train_on_batch` or a compiled step with
    batches of its own making) or "update" (nothing but weight updates to be seen).
    `batch_size` is samples per step over all replicas. `epoch_steps` is the number
    of steps in one epoch, None if unknown. `input_kind` says what feeds it:
    "tf.data", "numpy", "tensors", "generator", "PyDataset", "arrays in the loop".
    """

    kind: Literal["fit", "iterator", "call", "update"]
    where: Site | None = None
    batch_size: int | None = None
    batch_bytes: int | None = None
    batch_dtypes: tuple[str, ...] = ()
    epochs: int | None = None
    epoch_steps: int | None = None
    steps_per_execution: int = 1
    input_kind: str = ""
    has_validation: bool = False
    early_stopping: bool = False
    callbacks_given: tuple[str, ...] = ()
    strategy: str = ""
    replicas: int = 1
    updates_per_step: int = 1
    pydataset: Site | None = None  # where the PyDataset was built
    pydataset_arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PhaseUse:
    """How busy host and GPUs were in one phase ("real", "resident", "input", …).

    Means over the samples of the phase. `cpu_cores` counts the user's process tree.
    `gpu` has one entry per GPU.
    """

    phase: str
    samples: int
    cpu_cores: float | None = None
    machine_cpu_cores: float | None = None
    rss_peak: int | None = None
    read_bytes_s: float | None = None
    gpu: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Evidence:
    """The numbers and facts a fix may read. What was not measured raises.

    `probes` is by name; read it through `probe()`. `facts` holds what fits nowhere
    else, by name, read through `fact()`.
    """

    framework: Framework
    device: Device
    machine: Machine
    loop: Loop
    times: Times
    stages_: tuple[Stage, ...] | Missing = ()
    stage_input_s: float | None = None  # the whole pipeline, by the stage timing
    callbacks: tuple[CallbackCost, ...] = ()
    functions: tuple[FunctionCost, ...] = ()
    models: tuple[ModelFacts, ...] = ()
    step_function: StepFunction | None = None
    retracing: Retracing | None = None
    padding: Padding | None = None
    probes: dict[str, Probe | Missing] = field(default_factory=dict)
    between_epochs: BetweenEpochs | None = None
    startup: StartUp | None = None
    use: tuple[PhaseUse, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the input pipeline, first to last; raises `NotMeasured`."""
        return taken(self.stages_)

    def probe(self, name: str) -> Probe:
        """Return the probe `name`; raises `NotMeasured` if it was not run."""
        return taken(self.probes.get(name, Missing(f"the {name} probe was not run")))

    def fact(self, name: str) -> Any:
        """Return the fact `name`; raises `NotMeasured` if it is not known."""
        return taken(self.facts.get(name, Missing(f"{name} is not known")))

    def phase(self, name: str) -> PhaseUse:
        """Return how busy the machine was in phase `name`; raises `NotMeasured`."""
        for use in self.use:
            if use.phase == name:
                return use
        raise NotMeasured(f"no samples fell into phase {name}")

    @property
    def model(self) -> ModelFacts:
        """The Keras model that is trained; raises `NotMeasured` if none was seen."""
        for model in self.models:
            if model.trained:
                return model
        raise NotMeasured("no Keras model was seen in training")

    @property
    def utilization(self) -> float:
        """Resident over real time, at most 1: the share of a step that is not waiting.

        This is the accelerator utilisation of MLPerf Storage, which calls a job
        input-bound below 0.90.
        """
        return min(1.0, self.times.resident / self.times.real)

    @property
    def waiting_is_real(self) -> bool:
        """Whether what a step loses against the resident one stands out of the noise.

        Phases alternate, so each real block is set against the resident block that
        followed it: the loss is real if every pair shows at least half of it.
        """
        real, resident = taken(self.times.real_), taken(self.times.resident_)
        pairs = list(zip(real.rounds, resident.rounds, strict=False))
        if len(pairs) < 2:
            return 1 - self.utilization > 2 * self.times.noise
        loss = (1 - self.utilization) / 2
        return all(one > 0 and 1 - other / one >= loss for one, other in pairs)

    @property
    def input_bound(self) -> bool:
        """Whether waiting for data takes more than a tenth of each step.

        A resident step differs from a real one in nothing but its batch, so what is
        lost between them is lost to the input: to making batches, to handing them
        over, or to the cores that both want. Only tracing is told apart: replayed
        batches have shapes that were traced before.
        """
        if self.utilization >= INPUT_BOUND_BELOW or not self.waiting_is_real:
            return False
        traced = self.retracing
        if traced is None or not traced.steps:
            return True
        return traced.seconds / traced.steps < 0.5 * (self.times.real - self.times.resident)

    def bound_if_input_saves(self, seconds: float) -> float:
        """Upper bound of the speed-up if the input of each step took `seconds` less.

        What is saved can at most be the waiting (`real - resident`): a step never
        gets shorter than with free input.
        """
        real, resident = self.times.real, self.times.resident
        return real / max(resident, real - max(0.0, seconds))

    def bound_if_step_saves(self, seconds: float) -> float:
        """Upper bound of the speed-up if the step itself took `seconds` less.

        Removing work from the step shortens the real step by at most as much; where
        input overlaps with the step, it cannot get shorter than the input.
        """
        real = self.times.real
        floor = max(real - max(0.0, seconds), 1e-9)
        return real / floor


INPUT_BOUND_BELOW = 0.90
"""Accelerator utilisation below which a job is input-bound (MLPerf Storage v1.0)."""


# ------------------------------------------------------------------------- findings


class Equivalence(StrEnum):
    """What a fix may change, from nothing to the experiment itself."""

    EXACT = "exact"  # same numbers, same order of samples
    NUMERICS = "numerics"  # same mathematics, other rounding, order or random stream
    SEMANTICS = "semantics"  # other hyper-parameters, model or observability
    ENVIRONMENT = "environment"  # outside the source


Category = Literal["input", "model", "host", "sync", "memory", "storage", "environment", "practice"]


@dataclass(frozen=True)
class Finding:
    """One cause: what is slow, how it shows, where, and what repairing it can give.

    `bound` is the upper bound of the speed-up of the whole step (1.8 means at most
    1.8 times as many steps per second), None where no bound can be given, with
    `bound_basis` saying where it comes from. `text` is the evidence in a sentence or
    two with numbers; `advice` what to do, in the imperative; `snippet` the code to
    paste. `rewritable` says that a patch can be written for it.
    """

    id: str
    category: Category
    title: str
    text: str
    bound: float | None
    bound_basis: str
    equivalence: Equivalence
    where: tuple[Site, ...] = ()
    advice: str = ""
    snippet: str = ""
    rewritable: bool = False
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NotTaken:
    """Something that was not measured or not done, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class Patch:
    """The edits of the findings as one unified diff, or why there is none.

    `findings` are the ids whose edits it holds. `skipped` names what could not be
    written, with the reason.
    """

    diff: str
    findings: tuple[str, ...]
    skipped: tuple[NotTaken, ...] = ()


# ------------------------------------------------------------------------ diagnosis


Bottleneck = Literal["input", "model", "host", "sync", "memory", "storage", "environment", "none"]


@dataclass(frozen=True)
class Verdict:
    """The answer in one sentence, and which side of the step it points to.

    `healthy` means that nothing worth repairing was found. `utilization` is the
    accelerator utilisation against the 90 % line, None if not measured.
    """

    bottleneck: Bottleneck
    text: str
    utilization: float | None = None
    healthy: bool = False


@dataclass(frozen=True)
class ReportedTimes:
    """The times of the report; None where not measured (see `not_measured`).

    Seconds per step. `noise` is the relative half-width of the 95 % interval of the
    mean step; `spread` has the block means by phase.
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
class Trial:
    """A fix tried on the real script (filled in by the trials)."""

    fix: str
    speedup: float | None
    low: float | None
    high: float | None
    steps: int
    parity: str
    kept: bool
    reason: str


@dataclass(frozen=True)
class Overhead:
    """What observing costs: seconds and share of a step, measured in the run."""

    per_step_s: float
    share: float


@dataclass(frozen=True)
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
    startup: StartUp | None
    between_epochs: BetweenEpochs | None
    stages: tuple[ReportedStage, ...]
    callbacks: tuple[CallbackCost, ...]
    functions: tuple[FunctionCost, ...]
    utilization: tuple[PhaseUse, ...]
    findings: tuple[Finding, ...]  # ranked, best first
    practices: tuple[Finding, ...]  # time to accuracy: unranked, unpriced
    trials: tuple[Trial, ...]
    stack: dict[str, Any] | None
    control: dict[str, Any] | None
    overhead: Overhead | None
    patch: Patch | None
    not_measured: tuple[NotTaken, ...]
    notes: tuple[str, ...]  # what was seen that a reader should know
    seconds: float  # what the whole diagnosis took
    output_tail: str = ""  # the script's last output, where it failed
