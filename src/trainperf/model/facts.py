"""Facts of the script's process: framework, loop, models, callbacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from trainperf.errors import NotMeasured
from trainperf.model.basics import Missing, Site, Taken, half_width
from trainperf.recording.machine.machine import CudaDevice


@dataclass(frozen=True)
class Function:
    """A function of the user's, with where it is defined."""

    name: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class DrawnFrom:
    """The line at which a `map`'s function begins to draw random numbers.

    `element_bytes` is what it has made of one element by then and still works on, which is what
    a cache ahead of that line would hold.
    """

    line: int
    element_bytes: int


DATASET_ITEM = "dataset item"
"""The stage of a `DataLoader` that makes items; its `cardinality` is how many there are."""


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
    stage in parallel by itself. `drawn_from` is None where its function does not draw random
    numbers, or where that was not looked into.
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
    drawn_from: DrawnFrom | None = None
    python: bool = False  # py_function or numpy_function inside
    parallelised_by_default: bool = False
    by_user: bool = True  # False for what the framework appended (Keras adapters)

    seconds_per_step = Taken[float]()
    cumulative = Taken[float]()


@dataclass(frozen=True)
class Framework:
    """The framework the script trains with, as the script's own process saw it."""

    name: Literal["tensorflow", "torch", ""]
    version: str
    keras: str | None = None
    built_with_cuda: bool | None = None

    @property
    def on_other_backend(self) -> bool:
        """Whether Keras trains on another framework than TensorFlow."""
        return self.keras is not None and self.name == "torch"


@dataclass(frozen=True)
class Device:
    """The device of the training: "CPU", or "GPU" with its name and how many it uses.

    "" where the run ended before that was known.
    `gpus` are those that CUDA shows to its process, used or not; none where it did not say.
    `of_others` are those that other processes of the job use on this host, as NVML counts.
    """

    kind: Literal["CPU", "GPU", ""]
    name: str
    count: int
    gpus: tuple[CudaDevice, ...] = ()
    of_others: tuple[int, ...] = ()

    @property
    def used(self) -> tuple[CudaDevice, ...]:
        """The GPUs that the training uses."""
        return tuple(gpu for gpu in self.gpus if gpu.used)

    @property
    def first(self) -> CudaDevice:
        """The first of the GPUs used; raises `NotMeasured` where there is none."""
        if not self.used:
            raise NotMeasured("the script does not compute on a GPU")
        return self.used[0]


@dataclass(frozen=True)
class CallbackCost:
    """The cost of one Keras callback; seconds per call of each hook.

    `batch_s` adds `on_train_batch_begin` and `_end`; `epoch_s` likewise for epochs,
    None where no epoch ended while observed. `builtin` callbacks are Keras's own
    (`History`, `ProgbarLogger`).
    """

    name: str
    batch_s: float
    epoch_s: float | None = None
    where: Site | None = None
    builtin: bool = False
    hooks: dict[str, float] = field(default_factory=dict)
    methods: dict[str, Site] = field(default_factory=dict)  # heads of the user's own hooks
    functions: dict[str, Site] = field(default_factory=dict)  # of the user's that it was given
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
class StackSamples:
    """Stack samples of the loop's thread: so many `samples`, `input` of them getting a batch."""

    samples: int
    input: float

    @property
    def input_low(self) -> float:
        """The share at the low end of what so many samples can tell (95 %)."""
        return max(0.0, self.input - half_width(self.input, self.samples))

    @property
    def input_high(self) -> float:
        """The share at the high end of what so many samples can tell (95 %)."""
        return min(1.0, self.input + half_width(self.input, self.samples))


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


@dataclass(frozen=True)
class FrozenBase:
    """The first `layers` layers of a Keras model, whose weights do not train.

    They give the same output for the same input, `bytes_per_sample` of it, and the rest of the
    model needs nothing else. They have so many `parameters`; `trained` are those that do train.
    """

    layers: int
    parameters: int
    trained: int
    bytes_per_sample: int


@dataclass(frozen=True)
class ModelFacts:
    """A Keras model, as it describes itself.

    `jit_requested` is the value given to `compile` ("auto", True, False), `jit` what
    came of it, `jit_blocker` the clause that turned XLA off, in words; `jit_refused` says that it
    does whatever `compile` is given.
    """

    name: str
    cls: str
    parameters: int | None = None
    run_eagerly: bool = False
    jit_requested: str | bool | None = None
    jit: bool | None = None
    jit_blocker: str = ""
    jit_refused: bool = False
    steps_per_execution: int = 1
    optimizer: str = ""
    policy: str = ""  # the dtype policy, e.g. "float32", "mixed_bfloat16"
    compute_layers: dict[str, int] = field(default_factory=dict)  # class → count
    recurrent: tuple[LayerFacts, ...] = ()
    compile_where: Site | None = None
    frozen: FrozenBase | None = None


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
class ChangingNumber:
    """A Python number among the arguments of a call that was traced again for it.

    `where` is the call, `argument` its place among the positional ones or its keyword,
    `parameter` the function's own name for it, "" if it takes it by `*` or `**`. `dtype`
    is what TensorFlow would make of it, "" where its values do not fit.
    """

    where: Site
    argument: int | str
    parameter: str
    dtype: Literal["float32", "int32", ""]


@dataclass(frozen=True)
class Retracing:
    """Tracings of the training function after its first: how many, over how many steps.

    `steps` are the real steps they fell into, `step_s` what they take of a timed one on average,
    each with the first run of its graph as far as that took longer than later ones.
    `changes` says what changed between the calls, `cause` the same in words; "" where the
    signatures do not tell. `where` is the head of
    the `def` of the function, if it is the user's. `numbers` are the Python numbers
    that changed, in the calls that stand in the user's source.
    """

    function: str
    count: int
    steps: int
    step_s: float
    changes: Literal["value", "shape", "dtype", ""] = ""
    cause: str = ""
    where: Site | None = None
    numbers: tuple[ChangingNumber, ...] = ()


@dataclass(frozen=True)
class PaddedPlace:
    """Where in a batch its padded sequences are: in `batch[at]`, padded with `value`.

    `kind` is "tensor" where the batch is that tensor itself, or "list", "tuple", "dict". `along`
    are the members that hold something for each step of them, `at` among them. Sequences of
    `features` have a vector for each step, and end with zeros.
    """

    kind: str
    at: int | str
    along: tuple[int | str, ...]
    value: int = 0
    features: bool = False


@dataclass(frozen=True)
class Padding:
    """How much of the padded sequences is padding.

    `mean_length` and `padded_length` are time steps; `bucketed_length` is what the
    mean padded length would be if the sequences seen were batched by length,
    `longest_length` if each batch were padded to its own longest; None if not known.
    `quartiles` are lengths that a quarter, a half and three quarters of the sequences stay
    below. `place` says where in a batch its sequences are, and `masked` whether the model gave
    the same without their padding, `follows` how much of its forward's time goes with the padded
    length (1: all of it); None where that is not known. `side` is where padding stands,
    "start" or "end" of a sequence.
    """

    mean_length: float
    padded_length: float
    bucketed_length: float
    sequences: int
    longest_length: float | None = None
    quartiles: tuple[int, ...] = ()
    place: PaddedPlace | None = None
    masked: bool | None = None
    follows: float | None = None
    side: str = "end"


@dataclass(frozen=True)
class Loop:
    """The training loop that was timed.

    `kind` is how it takes its batches: "fit" (Keras drives), "iterator" (a loop over
    a dataset), "call" (a loop that calls `train_on_batch` or a compiled step with
    batches of its own making), "update" (nothing but weight updates to be seen) or "" (no loop).
    `batch_size` is samples per step over all replicas. `epoch_steps` is the number
    of steps in one epoch, None if unknown. `input_kind` says what feeds it:
    "tf.data", "numpy", "tensors", "generator", "PyDataset", "arrays in the loop".
    `tokens` are those of a step where its batches are sequences of them, `real_tokens` those among
    them that are no padding.
    `clock` says whose clock its steps were timed by, "" where that was not recorded. The script
    waits for its devices at every `waits_every`-th step, as far as was seen; a step takes
    `batches_per_step` turns of the loop over the data (accumulated gradients).
    """

    kind: Literal["fit", "iterator", "call", "update", ""]
    where: Site | None = None
    head: Site | None = None  # of an update: the loop of the script around the steps
    batch_size: int | None = None
    batch_bytes: int | None = None
    batch_dtypes: tuple[str, ...] = ()
    epochs: int | None = None
    epoch_steps: int | None = None
    steps_per_execution: int = 1
    input_kind: str = ""
    early_stopping: bool = False
    callbacks_given: tuple[str, ...] = ()
    strategy: str = ""
    replicas: int = 1
    updates_per_step: int = 1
    pydataset: Site | None = None  # where the PyDataset was built
    pydataset_arguments: dict[str, Any] = field(default_factory=dict)
    pydataset_random: bool | None = None  # its batches draw random numbers; None: not known
    pydataset_item: Site | None = None  # the `__getitem__` of the user's that makes its batches
    clock: str = ""
    waits_every: int = 1
    batch_parts: tuple[str, ...] = ()  # the types of its tensors, one by one
    batches_per_step: int = 1
    tokens: float | None = None
    real_tokens: float | None = None
    opened_each: Site | None = None  # where it opens its input anew for each step


@dataclass(frozen=True)
class PhaseUse:
    """How busy host and GPUs were in one phase ("real", "resident", "input", …).

    Means over the samples of the phase. `cpu_cores` counts the user's process tree.
    `gpu` has one entry per GPU. `throttled_share` is the share of the periods of the CPU
    quota in which it was used up; None where there is no quota. `others_cores` are those
    that others took of the cores that the script may use, `waited` the share of the time
    that the script's threads were ready to run in which others kept them from it.
    """

    phase: str
    samples: int
    cpu_cores: float | None = None
    machine_cpu_cores: float | None = None
    rss_peak: int | None = None
    read_bytes_s: float | None = None
    gpu: tuple[dict[str, Any], ...] = ()
    throttled_share: float | None = None
    others_cores: float | None = None
    waited: float | None = None
