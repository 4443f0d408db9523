"""A step of PyTorch, part by part, and the calls in it that wait for the device."""

from __future__ import annotations

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.report.document import DATA, HOST, MODEL, QUIET, RANKS, Page, Words, say
from trainperf.report.places import place

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


def step_parts(diagnosis: Diagnosis, page: Page) -> None:
    """Print what each part of a step takes."""
    parts = [part for part in diagnosis.step_parts if part.share >= WORTH_A_ROW]
    if not parts:
        return
    page.heading("The step, part by part")
    rows: list[list[Words | str]] = [
        [
            NAMES[part.name][0],
            units.seconds(part.seconds_per_step),
            units.share(part.share),
            f"{part.calls_per_step:.3g}" if part.calls_per_step else "",
        ]
        for part in parts
    ]
    longest = max(part.share for part in parts)
    page.table(
        rows,
        header=("part", "per step", "share", "calls"),
        right=(1, 2, 3),
        elastic=(0,),
        lengths=[(part.share / longest, NAMES[part.name][1]) for part in parts],
    )
    page.prose(say(how(diagnosis), QUIET), indent=2)


def sync_points(diagnosis: Diagnosis, page: Page) -> None:
    """Print the calls that make Python wait for the device, the dearest first."""
    if not diagnosis.sync_points:
        return
    gpu = diagnosis.device.kind == "GPU"
    page.heading("Calls that wait for the GPU" if gpu else "Calls that would wait for a GPU")
    real = diagnosis.times.real_s
    rows: list[list[Words | str]] = [
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
    page.table(
        rows,
        header=("call", "where", "per step", "share", "calls", ""),
        right=(2, 3, 4),
        elastic=(0, 1),
    )
    more = len(diagnosis.sync_points) - SYNCS
    if more > 0:
        page.prose(say(f"and {units.count(more, 'other')}", QUIET), indent=2)


def log_calls(diagnosis: Diagnosis, page: Page) -> None:
    """Print the calls that show the training or put it on record, the dearest first."""
    real = diagnosis.times.real_s
    logs = [one for one in diagnosis.log_calls if real and one.seconds >= LOGS * real][:SYNCS]
    if not logs or not real:
        return
    page.heading("Logging, progress bars and callbacks")
    rows: list[list[Words | str]] = [
        [
            f"`{log.what}`",
            "" if log.where is None else place(log.where, diagnosis.cwd),
            units.seconds(log.seconds),
            units.share(log.seconds / real),
            f"{log.calls:.3g}",
            f"{log.reads:.3g}" if log.reads else "",
        ]
        for log in logs
    ]
    page.table(
        rows,
        header=("call", "where", "per step", "share", "calls", "tensors read"),
        right=(2, 3, 4, 5),
        elastic=(0, 1),
    )


def how(diagnosis: Diagnosis) -> str:
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
