"""What a step is made of: its parts, waits, callbacks, the stages of its input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainperf.fixes.torch_step._step import call
from trainperf.model import Diagnosis, Site, Stage, SyncPoint, known
from trainperf.model import words as units
from trainperf.report.document import (
    DATA,
    HOST,
    MODEL,
    RANKS,
    SHORT,
    STEP,
    Page,
    Section,
    Words,
    given,
    say,
)
from trainperf.report.plain import place

NAMES = {
    "input": ("next batch", DATA),
    "transfer": ("copies to the device", DATA),
    "zero_grad": ("zero_grad", HOST),
    "forward": ("forward", MODEL),
    "backward": ("backward", MODEL),
    "optimizer": ("optimizer", MODEL),
    "graph": ("CUDA graphs", MODEL),
    "sync": ("waiting for the GPU", RANKS),
    "log": ("logging and callbacks", HOST),
    "rest": ("the loop's own Python", HOST),
}
"""The name of each part in their order, and the tone of its bar."""

WORTH_A_ROW = 0.005
"""Share of a step below which a row says nothing."""

CALLS = 5
"""How many of the calls that wait, or that log, are named."""

INPUT_MATTERS = 0.10
"""Input time, as a share of the real step, from which its stages are worth a table."""

CALLBACK_MATTERS = 0.01
"""Share of a step from which a callback is named."""

Call = tuple[str, Site | None, float, str]
"""What is called, where, its seconds of a step, and what else is told of it."""


def step_parts(diagnosis: Diagnosis, page: Page) -> None:
    """Print what each part of a step takes."""
    torch, names = diagnosis.evidence.torch_, dict(NAMES)
    if diagnosis.evidence.device.kind != "GPU":
        names["sync"] = "reading numbers (`.item()`)", HOST
    split = () if torch is None else known(torch.split_) or ()
    whole = sum(part.seconds for part in split)
    parts = [part for part in split if part.seconds > 0 and part.seconds >= WORTH_A_ROW * whole]
    if not parts:
        return
    parts.sort(key=lambda part: [*names].index(part.name))
    longest = max(part.seconds for part in parts)
    page.heading("Parts of a step")
    page.table(
        [
            [
                names[part.name][0],
                units.seconds(part.seconds),
                units.share(part.seconds / whole),
                f"{part.calls:.3g}" if part.calls else "",
            ]
            for part in parts
        ],
        header=("part", "per step", "share", "calls"),
        right=(1, 2, 3),
        elastic=(0,),
        lengths=[(part.seconds / longest, names[part.name][1]) for part in parts],
    )
    trace = None if torch is None else torch.trace
    if trace is not None and trace.device == "cuda":
        gap = "" if trace.gap_s is None else f"; none runs for {units.seconds(trace.gap_s)} of it"
        page.prose(f"{trace.kernels:,.0f} kernels in forward and backward{gap}.", 2)


def sync_points(diagnosis: Diagnosis, page: Page) -> None:
    """Print the calls that make Python wait for a GPU, the dearest first.

    Calls of one kind that stand in one line are one row: a reader could not tell them apart.
    """
    torch = diagnosis.evidence.torch_
    if torch is None or diagnosis.evidence.device.kind != "GPU":
        return
    lines: dict[tuple[str, str, int], SyncPoint] = {}
    for sync in torch.syncs:
        key = (sync.what, sync.where.file, sync.where.line)
        before = lines.get(key, replace(sync, what=call(sync.what), calls=0.0, seconds=0.0))
        calls, seconds = before.calls + sync.calls, before.seconds + sync.seconds
        lines[key] = replace(before, calls=calls, seconds=seconds)
    rows = [(sync.what, sync.where, sync.seconds, f"{sync.calls:.3g}") for sync in lines.values()]
    _calls("Calls that wait for the GPU", "calls", rows, diagnosis, page)


def log_calls(diagnosis: Diagnosis, page: Page) -> None:
    """Print the calls that show the training or put it on record, the dearest first."""
    real, torch = diagnosis.step_s or math.inf, diagnosis.evidence.torch_
    rows: list[Call] = [
        (log.what, log.where, log.seconds, f"{log.calls:.3g}")
        for log in (() if torch is None else torch.logs)
        if log.seconds >= WORTH_A_ROW * real
    ]
    _calls("Logging, progress bars and callbacks", "calls", rows, diagnosis, page)
    rows = [
        (cost.name, cost.where, cost.batch_s, given(units.seconds, cost.epoch_s))
        for cost in diagnosis.evidence.callbacks
        if cost.batch_s >= CALLBACK_MATTERS * real or (diagnosis.step_s and cost.epoch_s)
    ]
    _calls("Callbacks", "per epoch", rows, diagnosis, page)


def _calls(
    heading: str, last: str, calls: Sequence[Call], diagnosis: Diagnosis, page: Page
) -> None:
    """Write a table of calls with what each takes of a step."""
    if not calls:
        return
    page.heading(heading)
    real = diagnosis.step_s
    rows = [
        [
            f"`{what.strip('`')}`",
            place(where, diagnosis.cwd),
            units.seconds(seconds),
            units.share(seconds / real) if real else "",
            more,
        ]
        for what, where, seconds, more in sorted(calls, key=lambda call: -call[2])[:CALLS]
    ]
    header = ("call", "where", "per step", "share", last)
    page.table(rows, header=header, right=(2, 3, 4), elastic=(0, 1))


def input_stages(diagnosis: Diagnosis, page: Page) -> None:
    """Print the stages of the input pipeline, where the input takes long enough."""
    stages, alone = known(diagnosis.evidence.stages_), diagnosis.input_s
    if not stages or alone is None or alone < INPUT_MATTERS * (diagnosis.step_s or alone + 1):
        return
    timed = [known(stage.seconds_per_step_) for stage in stages]
    total = sum(seconds or 0.0 for seconds in timed)
    page.heading("Input pipeline")
    rows: list[list[Words | str]] = []
    for stage, seconds in zip(stages, timed, strict=True):
        share = seconds / total if seconds is not None and total > 0 else None
        function, where = stage.function, stage.where
        if where is None and function is not None and function.file:
            where = Site(function.file, function.line)
        rows.append(
            [
                stage.op,
                "" if function is None else function.name,
                place(where, diagnosis.cwd),
                "not timed" if seconds is None else units.seconds(seconds),
                "" if share is None else say(units.share(share), SHORT if share >= 0.5 else ""),
                ", ".join(_details(stage)),
            ]
        )
    header = ("stage", "function", "where", "per step", "share", "")
    page.table(rows, header=header, right=(3, 4), elastic=(0, 1, 2, 5))


def _details(stage: Stage) -> Iterator[str]:
    calls = stage.arguments.get("num_parallel_calls", "absent")
    if calls is None:
        yield "run in parallel by tf.data" if stage.parallelised_by_default else "serial"
    elif isinstance(calls, int):
        yield "AUTOTUNE" if calls == -1 else f"{calls} calls in parallel"
    for name in ("batch_size", "buffer_size", "workers"):
        if isinstance(value := stage.arguments.get(name), int):
            yield f"{name.partition('_')[0]} {'AUTOTUNE' if value == -1 else value}"


def _input(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.bottleneck in ("input", "storage") and not diagnosis.findings


SECTIONS = (
    Section("parts", STEP + 70, step_parts, side="step"),
    Section("syncs", STEP + 80, sync_points),
    Section("logs", STEP + 90, log_calls),
    Section("stages", STEP + 150, input_stages, _input, side="input"),
)
