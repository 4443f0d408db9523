"""A step of PyTorch, part by part, and the calls in it that wait for the device."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.reporters._paper import Paper
from trainperf.reporters._places import place

NAMES = {
    "input": ("getting the next batch", "yellow"),
    "transfer": ("copying to the device", "yellow"),
    "zero_grad": ("resetting the gradients", "blue"),
    "forward": ("forward", "green"),
    "backward": ("backward", "green"),
    "optimizer": ("optimizer", "green"),
    "sync": ("waiting for the device", "magenta"),
    "rest": ("the rest: the loop's own Python", "blue"),
}
"""What each part is called, and the colour of its bar."""

WORTH_A_ROW = 0.0005
"""Share of the step below which a part is left out: it would read "<0.1 %"."""

BAR = 24
"""Columns of the longest bar at most."""

SLOW = 1.5
"""Times the real step from which the timed steps were slow ones, whatever timing them took."""

SYNCS = 5
"""How many of the calls that wait are named."""


def step_parts(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print what each part of a step takes."""
    parts = [part for part in diagnosis.step_parts if part.share >= WORTH_A_ROW]
    if not parts:
        return
    paper.heading("The step, part by part")
    rows: list[list[Text | str]] = [
        [
            NAMES[part.name][0],
            units.seconds(part.seconds_per_step),
            units.share(part.share),
            f"{part.calls_per_step:.3g}" if part.calls_per_step else "",
        ]
        for part in parts
    ]
    head, *lines = paper.columns(
        rows, header=("part", "per step", "share", "calls"), right=(1, 2, 3), elastic=(0,)
    )
    room = min(BAR, paper.full - 4 - max(cell_len(line.plain) for line in (head, *lines)))
    longest = max(part.share for part in parts)
    paper.line(head, 2)
    for line, part in zip(lines, parts, strict=True):
        if room >= 8:
            length = paper.length(part.share / longest, room, NAMES[part.name][1])
            line = line + Text("  ") + length
        paper.line(line, 2)
    paper.prose(paper.say(_how(diagnosis), "dim"), indent=2)


def sync_points(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print the calls that make Python wait for the device, the dearest first."""
    if not diagnosis.sync_points:
        return
    gpu = diagnosis.device.kind == "GPU"
    paper.heading("Calls that wait for the GPU" if gpu else "Calls that would wait for a GPU")
    real = diagnosis.times.real_s
    rows: list[list[Text | str]] = [
        [
            f"`{sync.what.strip('`')}`",
            place(sync.where, diagnosis.cwd),
            units.seconds(sync.seconds),
            units.share(sync.seconds / real) if real else "",
            f"{sync.calls:.3g}",
            "printed" if sync.printed else "",
        ]
        for sync in diagnosis.sync_points[:SYNCS]
    ]
    paper.table(
        rows,
        header=("call", "where", "per step", "share", "calls", ""),
        right=(2, 3, 4),
        elastic=(0, 1),
    )
    more = len(diagnosis.sync_points) - SYNCS
    if more > 0:
        paper.prose(paper.say(f"and {units.count(more, 'other')}", "dim"), indent=2)


def _how(diagnosis: Diagnosis) -> str:
    """Say where the parts come from, and how far their sum is from the real step."""
    text = "From a few steps whose calls were timed one by one"
    real = diagnosis.times.real_s
    whole = sum(part.seconds_per_step for part in diagnosis.step_parts)
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
