"""Evidence from a Chrome trace of `torch.profiler`: what a run says, as far as a trace tells it."""

from __future__ import annotations

import bisect
import itertools
import re
import statistics
from collections import Counter, defaultdict

from trainperf.child.timing.estimating import estimate
from trainperf.child.torch.step.operator_times import PASS, OperatorTimes
from trainperf.errors import TrainperfError
from trainperf.evidence.events import read_as
from trainperf.evidence.timing import measured
from trainperf.model import (
    Device,
    Evidence,
    Framework,
    Loop,
    Machine,
    Measure,
    Missing,
    Times,
    TraceRead,
)
from trainperf.model.torch.loader import Loader
from trainperf.model.torch.step import (
    Part,
    StepCalls,
    StepPart,
    Torch,
    TorchModel,
    TorchOptimizer,
    Trace,
)
from trainperf.recording.chrome_trace import ChromeTrace, TraceEvent
from trainperf.recording.machine.machine import CudaDevice

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

Span = tuple[float, float]


def evidence_of(trace: ChromeTrace) -> Evidence:
    """What the trace says of a step.

    Times are by the GPU's clock where there is one: a step ends when the work that was started
    before its end is done. The resident step is what is left without the moments in which the
    host waited for a batch and the GPU had nothing to do. Raises `TrainperfError` where the trace
    marks no steps.
    """
    steps = _steps(trace)
    work = sorted(_work(trace), key=lambda event: event.at)
    real, waits = _real(trace, steps, work), _waits(trace, steps, work)
    if work:  # the first only fills the queue
        real, waits = real[1:], waits[1:]
    # Each step is read as a pass of the model, without what makes batches.
    making = _joined(_spans(trace.named(NEXT)))
    marks = [TraceEvent(PASS, at, end - at, "user_annotation") for at, end in steps]
    events = (e for e in trace.events if e.kind != "cpu_op" or not _inside(making, e.at))
    times_of = OperatorTimes([*events, *marks], "cuda" if work else "cpu")
    passes = read_as(Trace, times_of.event())
    busy = passes.busy_s if work else None
    resident = [max(busy or 0.0, step - wait) for step, wait in zip(real, waits, strict=True)]
    waited = trace.named(NEXT)
    pinned = bool(work) and not any(map(_pageable, work))
    alone = bool(waited) and all(ALONE in event.label for event in waited)
    times = Times(
        _measure(real),
        _measure(resident),
        _measure([_covered(_spans(waited), *s) / 1e6 for s in steps]) if alone else NOT_DRAINED,
        Missing("a trace does not tell"),
        waiting_noise=0.0,  # each wait was seen, none is the difference of two phases
        device_s=busy,
    )
    return Evidence(
        framework=Framework("torch", ""),
        device=_device(trace, {event.device for event in work}),
        machine=NOWHERE,
        loop=Loop("iterator", input_kind="DataLoader" if waited else ""),
        times=times,
        torch_=Torch(
            # of workers a trace has no number
            loaders=(Loader(role="training", pin_memory=pinned),) if alone else (),
            models=(_model(trace, len(steps)),),
            optimizers=_optimizers(trace, len(steps)),
            calls=StepCalls(),
            split_=_parts(trace, steps, work, real, waits),
            trace=passes,
        ),
    )


NOWHERE = Machine("", "", "", "", 0, 0, None, 0.0, 0, 0, 0)
"""A trace does not say on what host it was made: no cores, no memory are known."""


def _device(trace: ChromeTrace, used: set[int]) -> Device:
    known = dict(enumerate(trace.gpus))
    gpus = []
    for index in sorted(used):
        name, capability, size = known.get(index, ("GPU", "", None))
        gpus.append(CudaDevice(index, name, memory_total=size, compute_capability=capability))
    return Device("GPU", gpus[0].name, len(gpus), tuple(gpus)) if gpus else Device("CPU", "", 1)


def _model(trace: ChromeTrace, steps: int) -> TorchModel:
    """What is trained, as far as its products tell: how many, and their types.

    By operators, or by kernels where the types of operators were not recorded.
    """
    operators = [event for event in trace.events if event.kind == "cpu_op"]
    products = (event for event in operators if event.label in PRODUCTS)
    found = {NAMES[kind] for event in products for kind in event.types[:2] if kind in NAMES}
    kernels = [event.label for event in trace.events if event.kind == "kernel"]
    if not found:
        named = (("float16", HALF), ("float32", SINGLE))
        found = {name for name, pattern in named if any(map(pattern.search, kernels))}
    compiled = any(COMPILED.search(event.label) for event in trace.events)
    called = Counter(event.label for event in operators)
    layers = {layer: max(called[op] for op in ops) // steps for layer, ops in LAYERS.items()}
    return TorchModel("The model", dtypes=tuple(sorted(found)), compiled=compiled, modules=layers)


PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::convolution", "aten::linear")
LAYERS = {"Conv2d": ("aten::convolution",), "Linear": ("aten::addmm", "aten::linear")}
"""Operators that stand for a layer of a class: one of them, or one within another."""
NAMES = {"float": "float32", "c10::Half": "float16", "c10::BFloat16": "bfloat16"}
HALF = re.compile(
    r"(?:^|_)h(?:884|1688|16816|gemm|cudnn)|_f16|fp16|bf16|nvjet_[ht]|s(?:884|1688|16816)gemm_b?f",
    re.IGNORECASE,
)
SINGLE = re.compile(r"(?:^|_)s(?:gemm|cudnn)|winograd.*fp32|simt_s", re.IGNORECASE)
"""Stand in the names of kernels of cuBLAS and cuDNN that multiply in 16 bits, and in float32."""
COMPILED = re.compile(r"^triton_|CompiledFunction|Torch-Compiled Region")


def _steps(trace: ChromeTrace) -> list[Span]:
    """From when until when the host was at each step: by the profiler's marks, or by updates."""
    marks = [(event.at, event.at + event.long) for event in trace.named(STEP)]
    if not marks:
        updates = trace.named(UPDATE)
        turn = len(dict.fromkeys(event.label for event in updates)) or 1  # of several optimizers
        ends = [event.at + event.long for event in updates[turn - 1 :: turn]]
        marks = list(itertools.pairwise(ends))
    if len(marks) < FEWEST:
        raise TrainperfError(
            f"the trace marks {len(marks)} steps, and {FEWEST} are needed",
            hint="call profiler.step() after each step, or trace more of them",
        )
    return marks


def _work(trace: ChromeTrace) -> list[TraceEvent]:
    return [e for e in trace.events if e.kind in ("kernel", "gpu_memcpy", "gpu_memset")]


def _real(trace: ChromeTrace, steps: list[Span], work: list[TraceEvent]) -> list[float]:
    """Seconds of each step, as `StepTimes` reads them of marks that are queued with the work."""
    started = {e.number: e.at for e in trace.events if e.kind in ("cuda_runtime", "cuda_driver")}
    ends = sorted((started.get(e.number, e.at), e.at + e.long) for e in work)
    passed, index, latest = list[float](), 0, 0.0
    for mark in (steps[0][0], *(end for _, end in steps)):
        while index < len(ends) and ends[index][0] < mark:
            latest = max(latest, ends[index][1])
            index += 1
        passed.append(max(mark, latest))
    return [(after - before) / 1e6 for before, after in itertools.pairwise(passed)]


def _waits(trace: ChromeTrace, steps: list[Span], work: list[TraceEvent]) -> list[float]:
    """Seconds of each step in which the host waited for a batch and the GPU had no work."""
    waits, busy = _spans(trace.named(NEXT)), _joined(_spans(work))
    found = []
    for begin, end in steps:
        within = [(max(begin, w), min(end, e)) for w, e in waits if w < end and e > begin]
        found.append(sum(e - w - _covered(busy, w, e) for w, e in within) / 1e6)
    return found


def _parts(
    trace: ChromeTrace,
    steps: list[Span],
    work: list[TraceEvent],
    real: list[float],
    waits: list[float],
) -> tuple[StepPart, ...] | Missing:
    """The parts of a step: on a GPU by what its work was started in, on a CPU by the host's time.

    The rest is when the GPU had nothing to do, or what no mark of PyTorch's stands around.
    """
    seconds: dict[Part, float] = defaultdict(float)
    zones: list[tuple[Part, list[Span]]] = [
        ("optimizer", _joined(_spans(trace.named(UPDATE)))),
        ("zero_grad", _joined(_spans(trace.named(CLEAR)))),
        ("backward", _joined(_spans(trace.named(BACKWARD)))),
    ]
    if not zones[0][1]:
        return Missing("the trace holds no mark of an optimizer's step")
    if work:
        calls = {e.number: e.at for e in trace.events if e.kind in ("cuda_runtime", "cuda_driver")}
        spans: dict[Part, list[Span]] = defaultdict(list)
        for event in work:
            at = calls.get(event.number)
            if at is None or not steps[0][0] <= at < steps[-1][1]:
                continue
            name: Part = "transfer" if event.label.startswith(COPY) else "forward"
            for zone, within in zones:
                if _inside(within, at):
                    name = zone
            spans[name].append((event.at, event.at + event.long))
        counted: list[Span] = []
        for part in ("forward", "backward", "optimizer", "zero_grad", "transfer"):
            before = _length(counted)
            counted = _joined([*counted, *spans[part]])  # of what runs at once each moment once
            seconds[part] = (_length(counted) - before) / 1e6 / len(steps)
    else:
        for zone, within in zones:
            seconds[zone] = sum(_covered(within, *s) for s in steps) / 1e6 / len(steps)
    seconds["input"] = statistics.fmean(waits)
    rest = max(0.0, statistics.fmean(real) - sum(seconds.values()))
    seconds["rest" if work else "forward"] = rest
    return tuple(StepPart(name, spent) for name, spent in seconds.items() if spent > 0)


def _pageable(event: TraceEvent) -> bool:
    return event.label.startswith(COPY) and "Pageable" in event.label


def read_of(trace: ChromeTrace, name: str) -> TraceRead:
    """What was read of the trace in the file `name`, and what it tells that no fix asks for."""
    steps = len(_steps(trace))
    pageable_s = sum(event.long for event in _work(trace) if _pageable(event)) / 1e6
    workers = any(WORKERS in event.label for event in trace.named(NEXT))
    return TraceRead(name, steps, workers, pageable_s / steps)


def _optimizers(trace: ChromeTrace, steps: int) -> tuple[TorchOptimizer, ...]:
    """The optimizers by the names of their marks, and how they update, by their operators."""
    found = {}
    updates = trace.named(UPDATE)
    tensors = sum(e.label == GRADIENT for e in trace.events) // steps
    for cls in dict.fromkeys(event.label[len(UPDATE) :].partition(".")[0] for event in updates):
        zone = _joined(_spans([e for e in updates if e.label.startswith(f"{UPDATE}{cls}.")]))
        inside = {e.label for e in trace.events if e.kind == "cpu_op" and _inside(zone, e.at)}
        fused = any("_fused_" in label for label in inside)
        foreach = any("_foreach_" in label for label in inside)
        found[cls] = TorchOptimizer(
            cls,
            fused=True if fused else None,
            foreach=True if foreach else None,
            can_fuse=cls in CAN_FUSE,
            tensors=tensors,
            builtin=cls in CAN_FUSE,
        )
    return tuple(found.values())


GRADIENT = "torch::autograd::AccumulateGrad"
"""The node of the backward graph that a parameter tensor has."""
CAN_FUSE = ("Adam", "AdamW", "SGD", "Adagrad")


def _measure(values: list[float]) -> Measure:
    """The mean time of a step, its interval by blocks of steps.

    Where workers deliver by the handful, one step waits for all of it.
    """
    many = max(1, len(values) // BLOCKS)
    ends = range(0, len(values) - many + 1, many)
    half = estimate([statistics.fmean(values[at : at + many]) for at in ends]).half
    return measured(statistics.fmean(values), half, len(values), tuple(values))


def _spans(events: list[TraceEvent]) -> list[Span]:
    return [(event.at, event.at + event.long) for event in events]


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
