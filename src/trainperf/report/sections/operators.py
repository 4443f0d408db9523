"""The model's dearest operators, and how busy they keep the GPU."""

from __future__ import annotations

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.model.diagnosis import ReportedKernels
from trainperf.report.document import MODEL, QUIET, Page, Words, say

HEADING = "Operators of the model's step, traced"

HOW = "From a few passes under PyTorch's tracer, which slows them, so that only shares count"

ROWS = 8
"""How many operators are named."""

WORTH_A_ROW = 0.005
"""Share of all operators below which one is left out."""

NAME = 44
"""Columns of the longest name."""


def operators(diagnosis: Diagnosis, page: Page) -> None:
    """Print which operators take the time of forward and backward."""
    found = [one for one in diagnosis.operators if one.share >= WORTH_A_ROW][:ROWS]
    if not found:
        return
    page.heading(HEADING)
    rows: list[list[Words | str]] = [
        [
            short(one.name),
            f"{one.calls_per_pass:,.0f}" if one.calls_per_pass >= 1 else "<1",
            units.seconds(one.seconds_per_pass),
            units.share(one.share),
        ]
        for one in found
    ]
    page.table(
        rows,
        header=("operator", "calls", "per pass", "share"),
        right=(1, 2, 3),
        elastic=(0,),
        lengths=[(one.share / found[0].share, MODEL) for one in found],
    )
    if diagnosis.kernels is not None:
        page.prose(_kernels(diagnosis.kernels), indent=2)
    times = "what each has the GPU do" if diagnosis.kernels is not None else "each one's own time"
    page.prose(say(f"{HOW}; {times}.", QUIET), indent=2)


def short(name: str) -> str:
    """The name, cut where it is one of C++ templates."""
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _kernels(kernels: ReportedKernels) -> str:
    """Say how many kernels run, how long none does, what tensor cores do, what could be fused."""
    said = [f"{kernels.launches_per_pass:,.0f} kernels a pass"]
    if kernels.gap_s is not None:
        whole = kernels.busy_s + kernels.gap_s
        share = f" ({units.share(kernels.gap_s / whole)})" if whole > 0 else ""
        said.append(f"none runs for {units.seconds(kernels.gap_s)} of it{share}, traced")
    if kernels.tensor_core_s is not None and kernels.busy_s > 0:
        if kernels.tensor_core_s > 0:
            share = units.share(kernels.tensor_core_s / kernels.busy_s)
            said.append(f"tensor cores compute in at least {share} of their time")
        else:
            said.append("none is named as one that uses tensor cores")
    if kernels.fusable_s is not None and kernels.busy_s > 0:
        share = units.share(kernels.fusable_s / kernels.busy_s)
        said.append(f"{share} of their time is that of kernels which compiling can put together")
    return "; ".join(said) + "."
