"""A step of PyTorch taken apart: parts, waits, the GPU's memory, the stages of the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainperf.evidence.events import read_as
from trainperf.fixes.torch_step._lookers import call
from trainperf.model import Evidence, Missing, ReportedStage, Stage, StepPart, SyncPoint
from trainperf.model.diagnosis import DeviceMemory

ORDER: tuple[str, ...] = (
    *("input", "transfer", "zero_grad", "forward", "backward", "optimizer", "graph", "sync"),
    *("log", "rest"),
)
"""The parts as they come in most loops."""

_OF_LOADERS = ("sampler", "dataset item", "collate", "inter-process copy", "pin")
"""The stages of a PyTorch `DataLoader`; that they are Python goes without saying."""


def step_parts(evidence: Evidence) -> tuple[StepPart, ...]:
    """The parts of a step in their order; empty where it was not taken apart."""
    split = Missing("") if evidence.torch_ is None else evidence.torch_.split_
    if isinstance(split, Missing) or sum(part.seconds for part in split) <= 0:
        return ()
    return tuple(sorted(split, key=lambda part: ORDER.index(part.name)))


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


def device_memory(evidence: Evidence) -> DeviceMemory | None:
    """The allocator's counts; None without a GPU."""
    counted = {} if evidence.torch_ is None else evidence.torch_.memory
    if not counted:
        return None
    return read_as(DeviceMemory, counted)


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
