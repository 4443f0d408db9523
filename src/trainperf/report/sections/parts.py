"""A step of PyTorch, part by part: its waits for the device, and the model's dearest operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainperf.fixes.torch_step._step import call
from trainperf.model import Diagnosis, LogCall, SyncPoint, known
from trainperf.model import words as units
from trainperf.report.document import DATA, HOST, MODEL, QUIET, RANKS, STEP, Page, Section, say
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
"""The name of each part in their order, and the tone of its bar."""

WORTH_A_ROW = 0.005
"""Share of a step, or of all operators, below which a row says nothing."""

CALLS, OPERATORS = 5, 8
"""How many of the calls that wait, or that log, and how many operators are named."""

_NAME = 44
"""Columns of the longest name of an operator."""


def step_parts(diagnosis: Diagnosis, page: Page) -> None:
    """Print what each part of a step takes."""
    torch, order = diagnosis.evidence.torch_, list(NAMES)
    split = () if torch is None else known(torch.split_) or ()
    whole = sum(part.seconds for part in split)
    parts = [part for part in split if part.seconds > 0 and part.seconds >= WORTH_A_ROW * whole]
    if not parts:
        return
    parts.sort(key=lambda part: order.index(part.name))
    longest = max(part.seconds for part in parts)
    page.heading("The step, part by part")
    page.table(
        [
            [
                NAMES[part.name][0],
                units.seconds(part.seconds),
                units.share(part.seconds / whole),
                f"{part.calls:.3g}" if part.calls else "",
            ]
            for part in parts
        ],
        header=("part", "per step", "share", "calls"),
        right=(1, 2, 3),
        elastic=(0,),
        lengths=[(part.seconds / longest, NAMES[part.name][1]) for part in parts],
    )
    how = "From a few steps whose calls were timed one by one, which takes time itself."
    page.prose(say(how, QUIET), indent=2)


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
    _calls("Calls that wait for the GPU", list(lines.values()), diagnosis, page)


def log_calls(diagnosis: Diagnosis, page: Page) -> None:
    """Print the calls that show the training or put it on record, the dearest first."""
    real, torch = diagnosis.step_s, diagnosis.evidence.torch_
    found = () if torch is None else torch.logs
    logs = [log for log in found if real and log.seconds >= WORTH_A_ROW * real]
    _calls("Logging, progress bars and callbacks", logs, diagnosis, page)


def _calls(
    heading: str, calls: Sequence[SyncPoint | LogCall], diagnosis: Diagnosis, page: Page
) -> None:
    """Write a table of calls with what each takes of a step."""
    if not calls:
        return
    page.heading(heading)
    real = diagnosis.step_s
    rows = [
        [
            f"`{call.what.strip('`')}`",
            "" if call.where is None else place(call.where, diagnosis.cwd),
            units.seconds(call.seconds),
            units.share(call.seconds / real) if real else "",
            f"{call.calls:.3g}",
        ]
        for call in sorted(calls, key=lambda call: -call.seconds)[:CALLS]
    ]
    header = ("call", "where", "per step", "share", "calls")
    page.table(rows, header=header, right=(2, 3, 4), elastic=(0, 1))


def operators(diagnosis: Diagnosis, page: Page) -> None:
    """Print which operators take the time of forward and backward."""
    torch = diagnosis.evidence.torch_
    trace = None if torch is None else torch.trace
    if trace is None or trace.operators_s <= 0:
        return
    whole, found = trace.operators_s, sorted(trace.operators, key=lambda one: -one.seconds)
    found = [one for one in found[:OPERATORS] if one.seconds >= WORTH_A_ROW * whole]
    if not found:
        return
    page.heading("Operators of the model's step, traced")
    page.table(
        [
            [
                one.name if len(one.name) <= _NAME else f"{one.name[: _NAME - 1]}…",
                f"{one.calls:,.0f}" if one.calls >= 1 else "<1",
                units.seconds(one.seconds),
                units.share(one.seconds / whole),
            ]
            for one in found
        ],
        header=("operator", "calls", "per pass", "share"),
        right=(1, 2, 3),
        elastic=(0,),
        lengths=[(one.seconds / found[0].seconds, MODEL) for one in found],
    )
    if trace.device == "cuda":
        gap = "" if trace.gap_s is None else f"; none runs for {units.seconds(trace.gap_s)} of it"
        page.prose(f"{trace.kernels:,.0f} kernels a pass{gap}.", indent=2)


SECTIONS = (
    Section("parts", STEP + 70, step_parts, side="step"),
    Section("syncs", STEP + 80, sync_points),
    Section("logs", STEP + 90, log_calls),
    Section("operators", STEP + 100, operators),
)
