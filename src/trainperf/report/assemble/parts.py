"""A step of PyTorch taken apart: parts, waits, the GPU's memory, the stages of the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainperf.errors import NotMeasured
from trainperf.fixes.torch_step._lookers import call
from trainperf.model import Evidence, LogCall, Missing, ReportedStage, Stage, SyncPoint
from trainperf.model.diagnosis import DeviceMemory, ReportedKernels, ReportedOperator, ReportedPart

ORDER: tuple[str, ...] = (
    *("input", "transfer", "zero_grad", "forward", "backward", "optimizer", "graph", "sync"),
    *("log", "rest"),
)
"""The parts as they come in most loops."""

_OF_LOADERS = ("sampler", "dataset item", "collate", "inter-process copy", "pin")
"""The stages of a PyTorch `DataLoader`; that they are Python goes without saying."""


def step_parts(evidence: Evidence) -> tuple[ReportedPart, ...]:
    """The parts of a step with their shares of its sum; empty where it was not taken apart."""
    try:
        split = evidence.torch.split
    except NotMeasured:
        return ()
    whole = sum(part.seconds for part in split)
    if whole <= 0:
        return ()
    return tuple(
        ReportedPart(part.name, part.seconds, part.seconds / whole, part.calls)
        for part in sorted(split, key=lambda part: ORDER.index(part.name))
    )


def sync_points(evidence: Evidence) -> tuple[SyncPoint, ...]:
    """The calls that wait for the device, line by line, the dearest first.

    Calls of one kind that stand in one line are one row: a reader could not tell them apart.
    """
    found = () if evidence.torch_ is None else evidence.torch_.syncs
    lines: dict[tuple[str, str, int], SyncPoint] = {}
    for sync in found:
        key = (sync.what, sync.where.file, sync.where.line)
        before = lines.get(key, replace(sync, what=call(sync.what), calls=0.0, seconds=0.0))
        lines[key] = replace(
            before,
            calls=before.calls + sync.calls,
            seconds=before.seconds + sync.seconds,
            printed=before.printed or sync.printed,
        )
    return tuple(sorted(lines.values(), key=lambda sync: -sync.seconds))


def log_calls(evidence: Evidence) -> tuple[LogCall, ...]:
    """The calls that show the training or put it on record, the dearest first."""
    return () if evidence.torch_ is None else evidence.torch_.logs


def operators(evidence: Evidence) -> tuple[ReportedOperator, ...]:
    """The dearest operators of the model, with their shares of all; empty if not traced."""
    trace = None if evidence.torch_ is None else evidence.torch_.trace
    whole = 0.0 if trace is None else trace.operators_s
    if trace is None or whole <= 0:
        return ()
    return tuple(
        ReportedOperator(one.name, one.calls, one.seconds, one.seconds / whole)
        for one in sorted(trace.operators, key=lambda one: -one.seconds)
    )


def kernels(evidence: Evidence) -> ReportedKernels | None:
    """The GPU's work in the traced passes; None without a GPU or a trace."""
    trace = None if evidence.torch_ is None else evidence.torch_.trace
    if trace is None or trace.device != "cuda":
        return None
    return ReportedKernels(
        launches_per_pass=trace.kernels,
        busy_s=trace.operators_s,
        gap_s=trace.gap_s,
        tensor_core_s=trace.tensor_core_s,
        fusable_s=trace.fusable_s,
    )


def device_memory(evidence: Evidence) -> DeviceMemory | None:
    """The allocator's counts; None without a GPU."""
    counted = {} if evidence.torch_ is None else evidence.torch_.memory
    if not counted:
        return None
    return DeviceMemory(
        allocated_peak=counted.get("allocated_peak"),
        reserved_peak=counted.get("reserved_peak"),
        total=counted.get("total"),
        retries=counted.get("retries"),
        ooms=counted.get("ooms"),
    )


def stages(evidence: Evidence) -> tuple[ReportedStage, ...]:
    """The stages of the pipeline with their share of its time."""
    if isinstance(evidence.stages_, Missing):
        return ()
    total = sum(
        stage.seconds_per_step
        for stage in evidence.stages_
        if not isinstance(stage.seconds_per_step_, Missing)
    )
    return tuple(_stage(stage, total) for stage in evidence.stages_)


def _stage(stage: Stage, total: float) -> ReportedStage:
    own = stage.seconds_per_step_
    seconds = None if isinstance(own, Missing) else own
    return ReportedStage(
        name=stage.op,
        where=stage.where,
        seconds_per_step=seconds,
        share=seconds / total if seconds is not None and total > 0 else None,
        function=stage.function,
        detail=", ".join(_details(stage)),
    )


def _details(stage: Stage) -> Iterator[str]:
    calls = stage.arguments.get("num_parallel_calls", "absent")
    if stage.python and stage.op not in _OF_LOADERS:
        yield "Python"
    elif calls is None and stage.parallelised_by_default:
        yield "run in parallel by tf.data"
    if calls is None and not stage.parallelised_by_default:
        yield "serial"
    elif isinstance(calls, int):
        yield "AUTOTUNE" if calls == -1 else f"{calls} calls in parallel"
    for name in ("batch_size", "buffer_size"):
        if isinstance(value := stage.arguments.get(name), int):
            yield f"{name.partition('_')[0]} {'AUTOTUNE' if value == -1 else value}"
    if isinstance(workers := stage.arguments.get("workers"), int):
        yield "1 worker" if workers == 1 else f"{workers} workers"
    if isinstance(ahead := stage.arguments.get("prefetch_factor"), int):
        yield f"{ahead} batches ahead each"
