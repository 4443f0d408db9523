"""Evidence from a Chrome trace of `torch.profiler`: what a run says, as far as a trace tells it."""

from __future__ import annotations

import bisect
import itertools
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property

from trainperf.child.timing.estimating import estimate
from trainperf.child.torch.probes.operator_times import PASS, OperatorTimes
from trainperf.errors import TrainperfError
from trainperf.evidence.events import read_as
from trainperf.evidence.timing import measured
from trainperf.model import (
    CudaDevice,
    Device,
    Evidence,
    Framework,
    Loader,
    Loop,
    Machine,
    Measure,
    Missing,
    Part,
    StepCalls,
    StepPart,
    Times,
    Torch,
    TorchModel,
    TorchOptimizer,
    Trace,
    TraceRead,
)
from trainperf.recording.chrome_trace import ChromeTrace, Span, TraceEvent

STEP, NEXT, UPDATE, CLEAR = "ProfilerStep#", "enumerate(", "Optimizer.step#", "Optimizer.zero_grad#"
"""Begin the names of PyTorch's own marks: a step of the profiler's schedule, the wait for a batch,
an update of the weights, the clearing of gradients."""
WORKERS = "_MultiProcessingDataLoaderIter"
ALONE = "_SingleProcessDataLoaderIter"
"""Name the wait for a batch that workers make, and that the training process makes itself."""
BLOCKS = 6
"""So many blocks the steps are grouped into, at least, where there are as many."""
FEWEST = 3
"""Steps with which something can be said: the first only fills the GPU's queue."""
NOT_DRAINED = Missing("a trace does not hold the input by itself")
COPY = "Memcpy HtoD"
BACKWARD = "autograd::engine::evaluate_function: "

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::convolution", "aten::linear")
LAYERS = {"Conv2d": ("aten::convolution",), "Linear": ("aten::addmm", "aten::linear")}
"""Operators that stand for a layer of a class: one of them, or one within another."""
NAMES = {"float": "float32", "c10::Half": "float16", "c10::BFloat16": "bfloat16"}
KERNELS = {
    "float16": re.compile(
        r"(?:^|_)h(?:884|1688|16816|gemm|cudnn)|_f16|fp16|bf16|nvjet_[ht]|s(?:884|1688|16816)gemm_b?f",
        re.IGNORECASE,
    ),
    "float32": re.compile(r"(?:^|_)s(?:gemm|cudnn)|winograd.*fp32|simt_s", re.IGNORECASE),
}
"""Stand in the names of kernels of cuBLAS and cuDNN that multiply in 16 bits, and in float32."""
COMPILED = re.compile(r"^triton_|CompiledFunction|Torch-Compiled Region")
GRADIENT = "torch::autograd::AccumulateGrad"
"""The node of the backward graph that a parameter tensor has."""
CAN_FUSE = ("Adam", "AdamW", "SGD", "Adagrad")

NOWHERE = Machine("", "", "", "", 0, 0, None, 0.0, 0, 0, 0)
"""A trace does not say on what host it was made: no cores, no memory are known."""


def evidence_of(trace: ChromeTrace) -> Evidence:
    """What the trace says of a step.

    Times are by the GPU's clock where there is one: a step ends when the work that was started
    before its end is done. The resident step is what is left without the moments in which the
    host waited for a batch and the GPU had nothing to do. Raises `TrainperfError` where the trace
    marks no steps.
    """
    read = _Read(trace)
    real, waits, passes = read.real, read.waits, read.passes()
    busy = passes.busy_s if read.work else None
    resident = [max(busy or 0.0, step - wait) for step, wait in zip(real, waits, strict=True)]
    waited, spans = bool(read.waited), _spans(read.waited)
    alone = waited and all(ALONE in event.label for event in read.waited)
    pinned = bool(read.work) and not any(map(_pageable, read.work))
    times = Times(
        _measure(real),
        _measure(resident),
        _measure([_covered(spans, *step) / 1e6 for step in read.steps]) if alone else NOT_DRAINED,
        Missing("a trace does not tell"),
        waiting_noise=0.0,  # each wait was seen, none is the difference of two phases
        device_s=busy,
    )
    return Evidence(
        framework=Framework("torch", ""),
        device=_device(trace, {event.device for event in read.work}),
        machine=NOWHERE,
        loop=Loop("iterator", input_kind="DataLoader" if waited else ""),
        times=times,
        torch_=Torch(
            # of workers a trace has no number
            loaders=(Loader(role="training", pin_memory=pinned),) if alone else (),
            models=(read.model(),),
            optimizers=tuple(map(read.optimizer, read.optimizers)),
            calls=StepCalls(),
            split_=read.parts(),
            trace=passes,
        ),
    )


def read_of(trace: ChromeTrace, name: str) -> TraceRead:
    """What was read of the trace in the file `name`, and what it tells that no fix asks for."""
    read = _Read(trace)
    pageable_s = sum(event.long for event in read.work if _pageable(event)) / 1e6
    workers = any(WORKERS in event.label for event in read.waited)
    return TraceRead(name, len(read.steps), workers, pageable_s / len(read.steps))


class _Read:
    """A trace with its `steps` on the host, and the `work` of GPUs, in order.

    `started` is when the host started a piece of work, by its number; `operators` are PyTorch's,
    `updates` and `waited` the marks of updates and of waits for a batch.
    """

    def __init__(self, trace: ChromeTrace) -> None:
        on_gpu, calls = ("kernel", "gpu_memcpy", "gpu_memset"), ("cuda_runtime", "cuda_driver")
        self.trace, self.events = trace, trace.events
        self.updates, self.waited = trace.named(UPDATE), trace.named(NEXT)
        self.work = sorted((e for e in trace.events if e.kind in on_gpu), key=lambda e: e.at)
        self.operators = [event for event in trace.events if event.kind == "cpu_op"]
        self.started = {event.number: event.at for event in trace.events if event.kind in calls}
        # By the profiler's marks, or by updates.
        self.steps = _spans(trace.named(STEP))
        if not self.steps:
            turn = len({event.label for event in self.updates}) or 1  # of several optimizers
            ends = [event.span[1] for event in self.updates[turn - 1 :: turn]]
            self.steps = list(itertools.pairwise(ends))
        if len(self.steps) < FEWEST:
            raise TrainperfError(
                f"the trace marks {len(self.steps)} steps, and {FEWEST} are needed",
                hint="call profiler.step() after each step, or trace more of them",
            )

    @cached_property
    def real(self) -> list[float]:
        """Seconds of each step, as `StepTimes` reads them of marks that are queued with the work.

        On a GPU but for the first, which only fills the queue.
        """
        ends = sorted((self.started.get(e.number, e.at), e.span[1]) for e in self.work)
        passed, index, latest = list[float](), 0, 0.0
        for mark in (self.steps[0][0], *(end for _, end in self.steps)):
            while index < len(ends) and ends[index][0] < mark:
                latest = max(latest, ends[index][1])
                index += 1
            passed.append(max(mark, latest))
        seconds = [(after - before) / 1e6 for before, after in itertools.pairwise(passed)]
        return seconds[bool(self.work) :]

    @cached_property
    def waits(self) -> list[float]:
        """Seconds of each of these in which the host waited for a batch and no GPU had work."""
        waits, busy, found = _spans(self.waited), _joined(_spans(self.work)), []
        for begin, end in self.steps:
            within = [(max(begin, w), min(end, e)) for w, e in waits if w < end and e > begin]
            found.append(sum(e - w - _covered(busy, w, e) for w, e in within) / 1e6)
        return found[bool(self.work) :]

    def passes(self) -> Trace:
        """Each step, read as a pass of the model, without what makes batches."""
        making = _joined(_spans(self.waited))
        marks = [TraceEvent(PASS, at, end - at, "user_annotation") for at, end in self.steps]
        events = (e for e in self.events if e.kind != "cpu_op" or not _inside(making, e.at))
        times = OperatorTimes([*events, *marks], "cuda" if self.work else "cpu")
        return read_as(Trace, times.event())

    def model(self) -> TorchModel:
        """What is trained, as far as its products tell: how many, and their types.

        By operators, or by kernels where the types of operators were not recorded.
        """
        products = (event for event in self.operators if event.label in PRODUCTS)
        types = {NAMES[kind] for event in products for kind in event.types[:2] if kind in NAMES}
        if not types:
            kernels = [event.label for event in self.events if event.kind == "kernel"]
            types = {name for name in KERNELS if any(map(KERNELS[name].search, kernels))}
        compiled = any(COMPILED.search(event.label) for event in self.events)
        called, steps = Counter(event.label for event in self.operators), len(self.steps)
        layers = {layer: max(called[op] for op in ops) // steps for layer, ops in LAYERS.items()}
        dtypes = tuple(sorted(types))
        return TorchModel("The model", dtypes=dtypes, compiled=compiled, modules=layers)

    @property
    def optimizers(self) -> Iterable[str]:
        """The classes of the optimizers, by the names of their marks."""
        return dict.fromkeys(mark.label[len(UPDATE) :].partition(".")[0] for mark in self.updates)

    def optimizer(self, cls: str) -> TorchOptimizer:
        """One of them, and how it updates, by its operators."""
        marks = [mark for mark in self.updates if mark.label.startswith(f"{UPDATE}{cls}.")]
        zone = _joined(_spans(marks))
        inside = {event.label for event in self.operators if _inside(zone, event.at)}
        can_fuse = cls in CAN_FUSE
        return TorchOptimizer(
            cls,
            fused=any("_fused_" in label for label in inside) or None,
            foreach=any("_foreach_" in label for label in inside) or None,
            can_fuse=can_fuse,
            tensors=sum(event.label == GRADIENT for event in self.events) // len(self.steps),
            builtin=can_fuse,
        )

    def parts(self) -> tuple[StepPart, ...] | Missing:
        """The parts of a step: on a GPU by what its work was started in, else by the host's time.

        The rest is when the GPU had nothing to do, or what no mark of PyTorch's stands around.
        """
        if not self.updates:
            return Missing("the trace holds no mark of an optimizer's step")
        seconds: dict[Part, float] = {}
        zones: dict[Part, list[Span]] = {
            "optimizer": _joined(_spans(self.updates)),
            "zero_grad": _joined(_spans(self.trace.named(CLEAR))),
            "backward": _joined(_spans(self.trace.named(BACKWARD))),
        }
        if self.work:
            spans, counted = self._started_in(zones), list[Span]()
            for part in ("forward", "backward", "optimizer", "zero_grad", "transfer"):
                before = _length(counted)
                counted = _joined([*counted, *spans[part]])  # of what runs at once each moment once
                seconds[part] = (_length(counted) - before) / 1e6 / len(self.steps)
        else:
            for zone, within in zones.items():
                covered = sum(_covered(within, *step) for step in self.steps)
                seconds[zone] = covered / 1e6 / len(self.steps)
        seconds["input"] = statistics.fmean(self.waits)
        rest = max(0.0, statistics.fmean(self.real) - sum(seconds.values()))
        seconds["rest" if self.work else "forward"] = rest
        return tuple(StepPart(name, spent) for name, spent in seconds.items() if spent > 0)

    def _started_in(self, zones: dict[Part, list[Span]]) -> dict[Part, list[Span]]:
        """When a GPU was at what was started in which part of the steps."""
        spans: defaultdict[Part, list[Span]] = defaultdict(list)
        for event in self.work:
            at = self.started.get(event.number)
            if at is not None and self.steps[0][0] <= at < self.steps[-1][1]:
                part: Part = "transfer" if event.label.startswith(COPY) else "forward"
                around = [zone for zone, within in zones.items() if _inside(within, at)]
                spans[[part, *around][-1]].append(event.span)
        return spans


def _device(trace: ChromeTrace, used: set[int]) -> Device:
    known, gpus = dict(enumerate(trace.gpus)), []
    for index in sorted(used):
        name, capability, size = known.get(index, ("GPU", "", None))
        gpus.append(CudaDevice(index, name, memory_total=size, compute_capability=capability))
    return Device("GPU", gpus[0].name, len(gpus), tuple(gpus)) if gpus else Device("CPU", "", 1)


def _pageable(event: TraceEvent) -> bool:
    return event.label.startswith(COPY) and "Pageable" in event.label


def _measure(values: list[float]) -> Measure:
    """The mean time of a step, its interval by blocks of steps.

    Where workers deliver by the handful, one step waits for all of it.
    """
    many = max(1, len(values) // BLOCKS)
    ends = range(0, len(values) - many + 1, many)
    half = estimate([statistics.fmean(values[at : at + many]) for at in ends]).half
    return measured(statistics.fmean(values), half, len(values), tuple(values))


def _spans(events: Iterable[TraceEvent]) -> list[Span]:
    return [event.span for event in events]


def _joined(spans: list[Span]) -> list[Span]:
    """The spans in order, those that touch as one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _length(joined: list[Span]) -> float:
    return sum(end - begin for begin, end in joined)


def _covered(spans: list[Span], begin: float, end: float) -> float:
    """How much of the time from `begin` to `end` lies in spans that do not overlap."""
    return sum(max(0.0, min(end, last) - max(begin, first)) for first, last in spans)


def _inside(joined: list[Span], at: float) -> bool:
    index = bisect.bisect_right(joined, at, key=lambda span: span[0]) - 1
    return index >= 0 and at < joined[index][1]
