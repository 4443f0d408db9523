"""What only PyTorch has: its loaders, models, optimizers, calls, compiling, as they tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from trainperf.errors import NotMeasured
from trainperf.model.basics import Missing, Site, Taken
from trainperf.model.training import Trainer

NOT_SPLIT = Missing("the parts of a step were not timed")
Part = Literal[
    "input",
    "transfer",
    "forward",
    "backward",
    "optimizer",
    "zero_grad",
    "graph",
    "sync",
    "log",
    "rest",
]

HOOK_S = 20e-6
"""The most that timing one call costs the code around it, on a busy core: two readings of the
clock, a walk to the user's frame, a dictionary (5 µs on an idle one)."""


@dataclass(frozen=True)
class ItemLength:
    """Where the length of an item's sequence stands: `item[at]`, or the item where that is None.

    It is `len` of it; or where items are padded already how many steps are "given", that is not
    `value`, or for `features` not zero.
    """

    at: int | str | None
    how: Literal["len", "given"]
    value: int = 0
    features: bool = False


@dataclass(frozen=True)
class Access:
    """Files that items open or read, timed while they were made.

    `name` is what does so ("h5py.File"); `calls` and `seconds` are those of one item, `share` is of
    the time that one takes, `repeated` that of the calls given a file which others were given as
    well.
    """

    name: str
    calls: float
    seconds: float
    share: float
    repeated: float = 1.0


@dataclass(frozen=True)
class Loader:
    """A `DataLoader`, by the place where it is built, as its constructor left it.

    `batches` is its length, None if it has none. `built` counts how many were built at
    this place while observed, `item` is the head of the user's `__getitem__` or
    `__iter__`. `random` says that making items drew from a global random stream, `repeats` that
    items made a second time were the same, and drew on no generator at all, `shared_state`
    why worker processes cannot simply take the dataset over (an open file, a lock), "" if
    nothing stands against it; all None where not looked at.
    `item_threads` is how many threads making items used at most in the training process,
    `worker_threads` how many computed in a worker, `init` the head of the user's `worker_init_fn`,
    `length` how long the sequences
    of items are, None where they hold none that batches pad; `accesses` is how items got at
    their data.
    """

    where: Site | None = None
    role: Literal["training", "evaluation", ""] = ""
    dataset: str = ""
    item: Site | None = None
    iterable: bool = False
    sharded: bool | None = None  # an iterable dataset that asks which worker it is in
    batches: int | None = None
    batch_size: int | None = None
    workers: int = 0
    pin_memory: bool = False
    persistent_workers: bool = False
    prefetch_factor: int | None = None
    start_method: str = ""
    shuffled: bool = False
    sampler: str = ""
    built: int = 1
    random: bool | None = None
    repeats: bool | None = None
    shared_state: str | None = None
    item_threads: int | None = None
    worker_threads: int | None = None
    init: Site | None = None
    length: ItemLength | None = None
    accesses: tuple[Access, ...] = ()


@dataclass(frozen=True)
class Blocks:
    """Modules of one class that a model holds in a list: code compiled for one serves for all.

    `path` leads to the list from the model, as source: `.layers`, `[0].h`; "" is the model itself.
    """

    path: str
    cls: str
    count: int


@dataclass(frozen=True)
class CompileCall:
    """A call of the user's that compiles: `torch.compile(model)`, `model.compile()`, a decorator.

    `dynamic` is what was given: None lets PyTorch find out which sizes change.
    """

    where: Site
    dynamic: bool | None = None


@dataclass(frozen=True)
class Recompiling:
    """Compilations inside the steps after the first that a guard which failed asked for.

    `function` is the one compiled most often, `reason` its last guard that failed, as PyTorch
    says it, `where` the user's line that made the guard, or else its head. `count` and `seconds`
    are of all functions, in `steps` steps; `lasting_s` is what compiling takes of each step that
    was timed as it is, of those after the warm-up that is. `once_s` is what fell into others.
    `limit` says that PyTorch compiles it no more: what is new runs without compiled code.
    """

    function: str
    count: int
    steps: int
    seconds: float
    reason: str = ""
    where: Site | None = None
    lasting_s: float = 0.0
    once_s: float = 0.0
    limit: bool = False


@dataclass(frozen=True)
class GraphBreak:
    """A line of the user's at which a graph of a training step ends, with PyTorch's reason.

    `skips` says that the function around it, or the rest of it, runs without compiled code.
    """

    where: Site
    reason: str
    skips: bool = False


@dataclass(frozen=True)
class Compiling:
    """All that was seen of compiling in the user's script; empty where it does not compile."""

    calls: tuple[CompileCall, ...] = ()
    recompiling: Recompiling | None = None
    breaks: tuple[GraphBreak, ...] = ()


@dataclass(frozen=True)
class StepPart:
    """A part of a step, from steps whose calls were timed one by one.

    `seconds` and `calls` are per step. "input" is the wait for the next batch,
    "transfer" copies between devices, "graph" a CUDA graph of the script's that is replayed,
    "sync" waits for the device outside all other parts (`.item()`), "log" what libraries do to
    show the training or to put it on record, "rest" what is none of them: the loop's own Python.
    """

    name: Part
    seconds: float
    calls: float = 0.0
    where: Site | None = None


@dataclass(frozen=True)
class SyncPoint:
    """A call that makes the host wait for the device: `.item()`, `.cpu()`, `print`.

    `calls` and `seconds` are per step; `printed` says that the value goes into text.
    """

    what: str
    where: Site
    calls: float
    seconds: float
    printed: bool = False


TRACKERS = {
    "wandb": "Weights & Biases",
    "mlflow": "MLflow",
    "neptune": "Neptune",
    "clearml": "ClearML",
    "swanlab": "SwanLab",
}
"""Trackers that are kept off the network (`run/guarding.py`), by their packages."""


@dataclass(frozen=True)
class LogCall:
    """A call by which a library shows the training or puts it on record, in a tracker or a bar.

    `what` names it, its library or class first: `wandb.Run.log`, `tqdm.set_postfix`. `where` is
    the user's call of it, exact, or the head of the user's method that a library calls back; None
    where neither is.
    `calls`, `seconds` and `reads`, the tensors that it reads itself, are per step.
    """

    what: str
    where: Site | None
    calls: float
    seconds: float
    reads: float = 0.0

    @property
    def unsent(self) -> str:
        """The tracker that would send what is logged, and was kept from it; "" if none does."""
        name = self.what.lower()
        return next((TRACKERS[each] for each in TRACKERS if each in name), "")


@dataclass(frozen=True)
class DeviceWait:
    """A place whose operations wait for the GPU as CUDA's debug mode says, `calls` per step.

    Only those that are in no `SyncPoint`: masks, `nonzero`, copies inside of a forward. How
    long each waits is not known.
    """

    where: Site | None
    calls: float


@dataclass(frozen=True)
class TorchOptimizer:
    """An optimizer of `torch.optim`, with the settings that its kernels depend on.

    `fused` and `foreach` are what was given, None for "let PyTorch choose";
    `can_fuse` says that its class, devices and dtypes allow `fused=True` in this build.
    `tensors` is the number of parameter tensors it updates.
    """

    cls: str
    where: Site | None = None
    step_where: Site | None = None
    fused: bool | None = None
    foreach: bool | None = None
    can_fuse: bool = False
    tensors: int = 0
    parameters: int = 0
    builtin: bool = True


@dataclass(frozen=True)
class TorchModel:
    """An outermost `nn.Module` that the loop calls.

    `where` is the call that built it, `call` where the loop calls it. `modules` counts
    its submodules by class. `attentions` are the heads of the user's functions that
    seem to compute attention by hand, `eager` the call that built a model of Transformers which
    does so, and has a fused kernel (`attn_implementation="eager"`). `shapes` is how many different
    input shapes were seen, `checkpoints` are the calls in which activations were dropped.
    `blocks` are its lists of modules that could be compiled one by one.
    """

    cls: str
    where: Site | None = None
    call: Site | None = None
    name: str = ""  # what the loop calls it by, "" if it is no plain name
    parameters: int | None = None
    trained: bool = True
    compiled: bool = False
    modules: dict[str, int] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    channels_last: bool | None = None
    image_input: bool = False  # its first argument has four dimensions
    attentions: tuple[Site, ...] = ()
    eager: Site | None = None
    shapes: int = 1
    checkpointing: bool = False
    checkpoints: tuple[Site, ...] = ()
    blocks: tuple[Blocks, ...] = ()


@dataclass(frozen=True)
class StepCalls:
    """Where one step calls what, in the user's source, and under which settings.

    `autocast` is the dtype of the autocast region around the forward ("" for none).
    `backwards` and `updates` are calls per step of the loop. `retains_graph` says that a
    backward keeps its graph. Sites are None where the call stands in a library.
    """

    forward: Site | None = None
    backward: Site | None = None
    step: Site | None = None
    zero_grad: Site | None = None
    clip: Site | None = None
    autocast: str = ""
    scaler: bool = False
    backwards: float = 1.0
    updates: float = 1.0
    retains_graph: bool = False
    closure: bool = False


@dataclass(frozen=True)
class Evaluation:
    """A call of a model, at `where`, that no update follows; with `grad` autograd recorded it."""

    where: Site | None
    grad: bool = False


@dataclass(frozen=True)
class Operator:
    """An operator as PyTorch's tracer names it; `calls` and `seconds` are per pass.

    On a CPU the seconds are its own, without those of the operators that it calls; on a
    GPU they are those of the kernels and copies that it started.
    """

    name: str
    calls: float
    seconds: float


@dataclass(frozen=True)
class Trace:
    """A few passes of the model, forward and backward, under PyTorch's tracer.

    Tracing makes a pass slower, above all one of many small operators: its times say
    what the parts of a pass are to each other, and enter no speed-up. All
    are means per pass. `operators` are the dearest, `others_s` what all others took.
    `fusable_s` is the time of operators that compiling can put together: PyTorch's own but
    products, convolutions, attention and look-ups; kernels only on a GPU, where they do little
    but read and write memory. `kernels` is how many kernels ran on a GPU; on a CPU, how many
    operators called no other. Only on a GPU: `gap_s`, how long nothing ran between the first
    kernel of a pass and its last, `unqueued_s`, how long of that the host had queued nothing, at
    least; None where not known.
    `device_s` is how long each GPU that was used ran something, `together_s` how long several
    did at once.
    """

    device: Literal["cpu", "cuda"]
    operators: tuple[Operator, ...]
    others_s: float
    kernels: float
    gap_s: float | None = None
    seconds: float | None = None
    fusable_s: float | None = None
    device_s: tuple[float, ...] = ()
    together_s: float | None = None
    unqueued_s: float | None = None

    @property
    def operators_s(self) -> float:
        """Seconds of all operators of a pass; on a GPU those of its kernels and copies."""
        return sum(one.seconds for one in self.operators) + self.others_s

    @property
    def busy_s(self) -> float:
        """Seconds of a pass in which a GPU ran something, however many streams did at once."""
        return sum(self.device_s) - (self.together_s or 0.0) if self.device_s else self.operators_s


@dataclass(frozen=True)
class Torch:
    """All that only PyTorch has.

    `flags` holds what is set for the whole process, by name: `matmul_precision`,
    `cudnn_benchmark`, `deterministic`, `anomaly`, `profiler`, `launch_blocking`,
    `threads`, `omp_num_threads`, `bf16_cpu` (the CPU
    multiplies bfloat16 itself), `cpp_compiler` (there is one), `float64_batch`, `denormal` (the
    shares in weights, gradients and optimizers' state). `memory` is
    what CUDA's allocator counted, in bytes: `allocated_peak`, `reserved_peak`, `total`, and
    `retries` as a count; empty without a GPU. `untraced` says why there is no `trace`.
    `trainer` holds the settings of a library whose loop this is, `compiling` what is known of
    the script's own `torch.compile`.
    """

    loaders: tuple[Loader, ...] = ()
    models: tuple[TorchModel, ...] = ()
    optimizers: tuple[TorchOptimizer, ...] = ()
    calls: StepCalls | None = None
    evaluation: Evaluation | None = None
    split_: tuple[StepPart, ...] | Missing = NOT_SPLIT
    syncs: tuple[SyncPoint, ...] = ()
    logs: tuple[LogCall, ...] = ()
    waits: tuple[DeviceWait, ...] = ()
    flags: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    trace: Trace | None = None
    untraced: str = ""
    trainer: Trainer | None = None
    compiling: Compiling = field(default_factory=Compiling)

    split = Taken[tuple[StepPart, ...]]()

    def part(self, name: Part) -> StepPart:
        """One part of a step; raises `NotMeasured` if it was not seen."""
        for part in self.split:
            if part.name == name:
                return part
        raise NotMeasured(f"no {name} was seen in the steps that were taken apart")

    @property
    def loader(self) -> Loader:
        """The loader of the training loop; raises `NotMeasured` if there is none."""
        for loader in self.loaders:
            if loader.role == "training":
                return loader
        raise NotMeasured("the training loop takes its batches from no DataLoader")

    @property
    def model(self) -> TorchModel:
        """The model that is trained, the largest; raises `NotMeasured` if none was seen."""
        trained = [model for model in self.models if model.trained]
        if not trained:
            raise NotMeasured("no nn.Module was seen in training")
        return max(trained, key=lambda model: model.parameters or 0)

    @property
    def optimizer(self) -> TorchOptimizer:
        """The optimizer with most parameters; raises `NotMeasured` if there is none."""
        if not self.optimizers:
            raise NotMeasured("no optimizer of torch.optim was seen")
        return max(self.optimizers, key=lambda one: one.parameters)

    def flag(self, name: str) -> Any:
        """One of `flags`; raises `NotMeasured` if it is not known."""
        if name not in self.flags:
            raise NotMeasured(f"{name} is not known")
        return self.flags[name]
