"""A step of PyTorch, part by part: its waits for the device, and the model's dearest operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainperf.fixes.torch_step._step import call
from trainperf.model import Diagnosis, LogCall, StepPart, SyncPoint, Trace, known
from trainperf.model import words as units
from trainperf.report.document import (
    DATA,
    HOST,
    MODEL,
    QUIET,
    RANKS,
    STEP,
    Page,
    Section,
    Words,
    say,
)
from trainperf.report.plain import place

NAMES = {
    "input": ("getting the next batch", DATA),
    "transfer": ("copying to the device", DATA),
    "zero_grad": ("resetting the gradients", HOST),
    "forward": ("forward", MODEL),
    "backward": ("backward", MODEL),
    "optimizer": ("optimizer", MODEL),
    "graph": ("replayed CUDA graphs", MODEL),
    "sync": ("waiting for the device", RANKS),
    "log": ("logging, bars and callbacks", HOST),
    "rest": ("the rest: the loop's own Python", HOST),
}
"""The name of each part, and the tone of its bar."""

WORTH_A_ROW = 0.0005
"""Share of the step below which a part is left out: it would read "<0.1 %"."""

SLOW = 1.5
"""Times the real step from which the timed steps were slow ones, whatever timing them took."""

SYNCS = 5
"""How many of the calls that wait, or that log, are named."""

LOGS = 0.005
"""Share of the step below which a call that logs is left out."""

OPERATORS_HEADING = "Operators of the model's step, traced"

_HOW = "From a few passes under PyTorch's tracer, which slows them, so that only shares count"

ROWS = 8
"""How many operators are named."""

_WORTH_AN_OPERATOR = 0.005
"""Share of all operators below which one is left out."""

_NAME = 44
"""Columns of the longest name."""


def step_parts(diagnosis: Diagnosis, page: Page) -> None:
    """Print what each part of a step takes."""
    split = step_split(diagnosis)
    whole = sum(part.seconds for part in split)
    parts = [part for part in split if part.seconds >= WORTH_A_ROW * whole]
    if not parts or whole <= 0:
        return
    page.heading("The step, part by part")
    rows: list[list[Words | str]] = [
        [
            NAMES[part.name][0],
            units.seconds(part.seconds),
            units.share(part.seconds / whole),
            f"{part.calls:.3g}" if part.calls else "",
        ]
        for part in parts
    ]
    longest = max(part.seconds for part in parts)
    page.table(
        rows,
        header=("part", "per step", "share", "calls"),
        right=(1, 2, 3),
        elastic=(0,),
        lengths=[(part.seconds / longest, NAMES[part.name][1]) for part in parts],
    )
    page.prose(say(how(diagnosis), QUIET), indent=2)


def step_split(diagnosis: Diagnosis) -> list[StepPart]:
    """The parts of a step in their order; empty where it was not taken apart."""
    torch, order = diagnosis.evidence.torch_, list(NAMES)
    split = () if torch is None else known(torch.split_) or ()
    return sorted(split, key=lambda part: order.index(part.name))


def by_line(diagnosis: Diagnosis) -> list[SyncPoint]:
    """The calls that wait for the device, line by line, the dearest first.

    Calls of one kind that stand in one line are one row: a reader could not tell them apart.
    """
    torch = diagnosis.evidence.torch_
    lines: dict[tuple[str, str, int], SyncPoint] = {}
    for sync in () if torch is None else torch.syncs:
        key = (sync.what, sync.where.file, sync.where.line)
        before = lines.get(key, replace(sync, what=call(sync.what), calls=0.0, seconds=0.0))
        lines[key] = replace(
            before,
            calls=before.calls + sync.calls,
            seconds=before.seconds + sync.seconds,
            printed=before.printed or sync.printed,
        )
    return sorted(lines.values(), key=lambda sync: -sync.seconds)


def sync_points(diagnosis: Diagnosis, page: Page) -> None:
    """Print the calls that make Python wait for the device, the dearest first."""
    found = by_line(diagnosis)
    if not found:
        return
    gpu = diagnosis.evidence.device.kind == "GPU"
    page.heading("Calls that wait for the GPU" if gpu else "Calls that would wait for a GPU")
    first = found[:SYNCS]
    _calls(first, ["printed" if sync.printed else "" for sync in first], "", diagnosis, page)
    more = len(found) - SYNCS
    if more > 0:
        page.prose(say(f"and {units.count(more, 'other')}", QUIET), indent=2)


def log_calls(diagnosis: Diagnosis, page: Page) -> None:
    """Print the calls that show the training or put it on record, the dearest first."""
    real = diagnosis.step_s
    torch = diagnosis.evidence.torch_
    found = () if torch is None else torch.logs
    logs = [one for one in found if real and one.seconds >= LOGS * real][:SYNCS]
    if logs:
        page.heading("Logging, progress bars and callbacks")
        reads = [f"{log.reads:.3g}" if log.reads else "" for log in logs]
        _calls(logs, reads, "tensors read", diagnosis, page)


def _calls(
    calls: Sequence[SyncPoint | LogCall],
    last: Sequence[str],
    heading: str,
    diagnosis: Diagnosis,
    page: Page,
) -> None:
    """Write a table of calls with what each takes of a step; `last` is its last column."""
    real = diagnosis.step_s
    rows = [
        [
            f"`{call.what.strip('`')}`",
            "" if call.where is None else place(call.where, diagnosis.cwd),
            units.seconds(call.seconds),
            units.share(call.seconds / real) if real else "",
            f"{call.calls:.3g}",
            more,
        ]
        for call, more in zip(calls, last, strict=True)
    ]
    header = ("call", "where", "per step", "share", "calls", heading)
    page.table(rows, header=header, right=(2, 3, 4, 5) if heading else (2, 3, 4), elastic=(0, 1))


def how(diagnosis: Diagnosis) -> str:
    """Say where the parts come from, and how far their sum is from the real step."""
    text = "From a few steps whose calls were timed one by one"
    real = diagnosis.step_s
    whole = sum(part.seconds for part in step_split(diagnosis))
    if real is None or whole <= real:
        return f"{text}."
    if whole > SLOW * real:
        return (
            f"{text}. These steps were slow ones: they add up to {units.seconds(whole)}, where a "
            f"step takes {units.seconds(real)}."
        )
    return (
        f"{text}, which takes time itself: they add up to {units.seconds(whole)}, where a step "
        f"takes {units.seconds(real)}."
    )


def operators(diagnosis: Diagnosis, page: Page) -> None:
    """Print which operators take the time of forward and backward."""
    torch = diagnosis.evidence.torch_
    trace = None if torch is None else torch.trace
    whole = 0.0 if trace is None else trace.operators_s
    if trace is None or whole <= 0:
        return
    found = [one for one in trace.operators if one.seconds >= _WORTH_AN_OPERATOR * whole]
    found = sorted(found, key=lambda one: -one.seconds)[:ROWS]
    if not found:
        return
    page.heading(OPERATORS_HEADING)
    rows: list[list[Words | str]] = [
        [
            _short(one.name),
            f"{one.calls:,.0f}" if one.calls >= 1 else "<1",
            units.seconds(one.seconds),
            units.share(one.seconds / whole),
        ]
        for one in found
    ]
    page.table(
        rows,
        header=("operator", "calls", "per pass", "share"),
        right=(1, 2, 3),
        elastic=(0,),
        lengths=[(one.seconds / found[0].seconds, MODEL) for one in found],
    )
    if trace.device == "cuda":
        page.prose(_kernels(trace), indent=2)
    times = "what each has the GPU do" if trace.device == "cuda" else "each one's own time"
    page.prose(say(f"{_HOW}; {times}.", QUIET), indent=2)


def _short(name: str) -> str:
    """The name, cut where it is one of C++ templates."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _kernels(trace: Trace) -> str:
    """Say how many kernels run, how long none does, what tensor cores do, what could be fused."""
    busy = trace.operators_s
    said = [f"{trace.kernels:,.0f} kernels a pass"]
    if trace.gap_s is not None:
        share = units.share(trace.gap_s / (trace.busy_s + trace.gap_s))
        said.append(f"none runs for {units.seconds(trace.gap_s)} of it ({share}), traced")
        if trace.unqueued_s is not None and trace.gap_s:
            share = units.share(trace.unqueued_s / trace.gap_s)
            said[-1] += f": in {share} of that Python had not queued the next one"
    if trace.tensor_core_s:
        share = units.share(trace.tensor_core_s / busy)
        said.append(f"tensor cores compute in at least {share} of their time")
    elif trace.tensor_core_s is not None:
        said.append("none is named as one that uses tensor cores")
    if trace.fusable_s is not None:
        share = units.share(trace.fusable_s / busy)
        said.append(f"{share} of their time is that of kernels which compiling can put together")
    return "; ".join(said) + "."


SECTIONS = (
    Section("parts", STEP + 70, step_parts, side="step"),
    Section("syncs", STEP + 80, sync_points),
    Section("logs", STEP + 90, log_calls),
    Section("operators", STEP + 100, operators),
)
