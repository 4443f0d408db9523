"""The evidence: every number and fact that a fix may read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trainperf.errors import NotMeasured
from trainperf.model.basics import INTERNAL, Missing, Site, Taken, is_taken, taken
from trainperf.model.facts import (
    CallbackCost,
    Device,
    Framework,
    FunctionCost,
    Loop,
    ModelFacts,
    Padding,
    PhaseUse,
    Retracing,
    StackSamples,
    Stage,
    StepFunction,
)
from trainperf.model.lines import StepLines
from trainperf.model.parallel import Parallel, Strategy
from trainperf.model.timing import BetweenEpochs, Collections, Measure, Probe, StartUp, Times
from trainperf.model.torch import Torch
from trainperf.model.training import NOTHING_SEEN, Length, Outside
from trainperf.recording.machine.machine import ContainerUse, Machine
from trainperf.recording.machine.storage import Objects, Reads

WORTH_NAMING = 0.05
"""Share of a step below which what neither model nor data explain is left out as noise."""

INPUT_BOUND_BELOW = 0.90
"""Accelerator utilisation below which a job is input-bound (MLPerf Storage v1.0)."""

LEAST_INPUT = 0.05
"""An input that takes less than this share of what a step loses is not what it loses it to."""

UNKNOWN_LENGTH = Missing("it was not seen how long the training is to be")

NOT_SAMPLED = Missing("its steps were not sampled")

LEAST_SAMPLES = 25
"""Samples of the stack below which what they do not show may still be there."""


@dataclass(frozen=True)
class Evidence:
    """The numbers and facts a fix may read. What was not measured raises `NotMeasured`.

    `stages` are those of the input pipeline, first to last, `lines` a step by lines of the user's
    own files, `outside` is the work of the script between its training steps. `probes` is by name;
    read it through `probe()`. `facts` holds what fits nowhere else, by name, read through `fact()`.
    """

    framework: Framework
    device: Device
    machine: Machine
    loop: Loop
    times: Times
    stages_: tuple[Stage, ...] | Missing = ()
    callbacks: tuple[CallbackCost, ...] = ()
    functions: tuple[FunctionCost, ...] = ()
    lines_: StepLines | Missing = NOT_SAMPLED
    seen: StackSamples | None = None  # where the loop's thread was; None: it was not sampled
    models: tuple[ModelFacts, ...] = ()
    step_function: StepFunction | None = None
    retracing: Retracing | None = None
    padding: Padding | None = None
    probes: dict[str, Probe | Missing] = field(default_factory=dict)
    collections: Collections | None = None  # None: they were not timed
    between_epochs: BetweenEpochs | None = None
    outside_: Outside | Missing = NOTHING_SEEN
    around: Site | None = None  # the loop of the script that calls `fit` again and again
    startup: StartUp | None = None
    length_: Length | Missing = UNKNOWN_LENGTH
    use: tuple[PhaseUse, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict, compare=False, metadata=INTERNAL)
    torch_: Torch | None = None
    parallel_: Parallel | None = None
    strategy: Strategy | None = None  # of `tf.distribute`, with one replica as well
    container: ContainerUse | None = None
    reads: tuple[Reads, ...] = ()
    objects: tuple[Objects, ...] = ()
    unread: tuple[str, ...] = ()  # the parts of the record that could not be read, and why

    stages = Taken[tuple[Stage, ...]]()
    lines = Taken[StepLines]()
    outside = Taken[Outside]()

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
        if not self.models:
            raise NotMeasured("no Keras model was seen in training")
        return self.models[0]

    @property
    def torch(self) -> Torch:
        """The facts of PyTorch alone; raises `NotMeasured` for other frameworks."""
        if self.torch_ is None:
            raise NotMeasured("the script does not train with PyTorch")
        return self.torch_

    @property
    def utilization(self) -> float:
        """Resident over real time, at most 1: the share of a step that is not waiting.

        This is the accelerator utilisation of MLPerf Storage, which calls a job
        input-bound below 0.90.
        """
        return min(1.0, self.times.resident / self.times.real)

    @property
    def known_utilization(self) -> float | None:
        """The same, None where either time was not measured."""
        both = is_taken(self.times.resident_) and is_taken(self.times.real_)
        return self.utilization if both else None

    @property
    def waiting_is_real(self) -> bool:
        """Whether what a step loses against the resident one stands out of the noise.

        It does if at least half of it is sure. Phases alternate, so what tells is the
        spread of the losses of neighbouring blocks: the times themselves drift.
        """
        return 1 - self.utilization > 2 * self.times.loss_noise

    @property
    def in_turn(self) -> bool:
        """Whether the training's own thread makes each batch, and no other meanwhile.

        A `DataLoader` without workers does, unless a thread of the user's was seen at
        work, or one that pins memory for a GPU.
        """
        if self.torch_ is None or self.loop.input_kind != "DataLoader":
            return False
        loaders = [one for one in self.torch_.loaders if one.role == "training"]
        gpu = self.device.kind == "GPU"
        return (
            bool(loaders)
            and not any(one.workers or (gpu and one.pin_memory) for one in loaders)
            and not any(cost.thread == "worker" for cost in self.functions)
        )

    @property
    def input_bound(self) -> bool:
        """Whether waiting for data takes more than a tenth of each step.

        A resident step differs from a real one in nothing but its batch, so what is
        lost between them is lost to the input: to making batches, to handing them
        over, or to the cores that both want. Two things are told apart: an input so
        quick that it cannot be what was lost, and tracing or compiling (replayed batches have
        shapes that were traced before). Batches that are made in turn with the steps
        cost what making them takes: there is nobody to hand over or to share cores. What an
        input takes once it is open says nothing where each step opens it. In a
        loop over a dataset both must fit what was seen: see `_input_explains`.
        """
        if self.utilization >= INPUT_BOUND_BELOW or not self.waiting_is_real:
            return False
        once = self.loop.opened_each is None
        if once and self.loop.kind == "iterator" and not self._input_explains():
            return False
        lost = self.times.real - self.times.resident
        if once and isinstance(self.times.input_, Measure):
            least = (
                (1 - INPUT_BOUND_BELOW) * self.times.real if self.in_turn else LEAST_INPUT * lost
            )
            if self.times.input < least:
                return False
        traced = self.tracing_s
        return not traced or traced < 0.5 * lost

    @property
    def tracing_s(self) -> float:
        """Seconds of a step, on average, that tracing or compiling a function again takes."""
        if self.torch_ is not None:
            seen = self.torch_.compiling.recompiling
            return 0.0 if seen is None else seen.lasting_s
        return 0.0 if self.retracing is None else self.retracing.step_s

    def _input_explains(self) -> bool:
        """Whether the input can be what a loop over a dataset loses its time to.

        Not if making a step's data takes next to nothing of a step, on all cores that it was
        seen to use. Where nobody else makes batches, nor if the loop's own thread was seen at
        getting them in less than half of what it loses.
        """
        alone = self.times.input_
        if isinstance(alone, Measure):
            used = next((use.cpu_cores for use in self.use if use.phase == "input"), None)
            cores = max(1.0, self.machine.cores if used is None else used)  # that it kept busy
            work = alone.seconds * (1.0 if self.in_turn else cores)
            if work < LEAST_INPUT * self.times.real:
                return False
        seen = self.seen
        if not self.in_turn or seen is None or seen.samples < LEAST_SAMPLES:
            return True
        return seen.input_high >= (1 - self.utilization) / 2

    def bound_if_input_saves(self, seconds: float) -> float:
        """Upper bound of the speed-up if the input of each step took `seconds` less.

        What is saved can at most be the waiting (`real - resident`): a step never
        gets shorter than with free input. Where a step waits longer than the input
        takes alone (both want the same cores), the saving grows with it.
        """
        real, resident = self.times.real, self.times.resident
        waits = self.parallel_ is not None and self.parallel_.stragglers
        if is_taken(self.times.input_) and not waits:  # a rank's wait is not its input's doing
            seconds *= max(1.0, (real - resident) / max(self.times.input, 1e-9))
        return real / max(resident, real - max(0.0, seconds))

    def bound_if_step_saves(self, seconds: float) -> float:
        """Upper bound of the speed-up if the step itself took `seconds` less.

        Removing work from the step shortens the real step by at most as much; where
        input overlaps with the step, it cannot get shorter than the input.
        """
        real = self.times.real
        return real / max(real - max(0.0, seconds), 1e-9)

    def bound_if_host_saves(self, share: float) -> float:
        """Upper bound of the speed-up if host work of so large a share of the step was gone.

        What is hidden behind the devices saves nothing: a step is never shorter than their work.
        """
        left = max(0.05, 1 - min(1.0, share))
        if self.times.device_s is not None and is_taken(self.times.real_):
            left = max(left, min(1.0, self.times.device_s / self.times.real))
        return 1 / left

    def favourable(self) -> Evidence:
        """The same evidence with its times at the favourable end of their noise, and exact.

        What no fix sees in it cannot matter; what one sees may: only a trial tells.
        """
        return replace(self, times=self.times.favourable())

    def as_if_exact(self) -> Evidence:
        """The same evidence as if its times and probes had no noise: the middle of it."""
        return replace(self, times=self.times.as_if_exact(), probes=self._exact("ratio"))

    def at_best(self) -> tuple[Evidence, Evidence]:
        """The same evidence where the input, and where the step, may gain the most.

        Times and probes stand at the favourable end of their noise.
        """
        made = replace(self, probes=self._exact("high"))
        ends = self.times.favourable(), self.times.waiting_least()
        return replace(made, times=ends[0]), replace(made, times=ends[1])

    def _exact(self, at: Literal["ratio", "high"]) -> dict[str, Probe | Missing]:
        return {
            name: probe.exact(getattr(probe, at)) if isinstance(probe, Probe) else probe
            for name, probe in self.probes.items()
        }

    @property
    def parallel(self) -> Parallel:
        """The job's processes and devices; raises `NotMeasured` where it has but one."""
        if self.parallel_ is None:
            raise NotMeasured("one process trains on one device")
        return self.parallel_
