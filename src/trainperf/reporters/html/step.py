"""The step as a bar taken apart, its parts, and the times it was computed from."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.report.sections.shares import shares
from trainperf.reporters.html.drawing import percent

ROOM = 0.09
"""Share of the bar from which a part has room for its number."""


@dataclass(frozen=True)
class Piece:
    """A part of a bar, with its row in the legend."""

    name: str
    fill: str
    x: str
    width: str
    middle: str
    seconds: str
    share: str
    label: str = ""


@dataclass(frozen=True)
class Taken:
    """One of the times of a step: its bar, the blocks it is the mean of, and in words."""

    name: str
    what: str
    seconds: str
    blocks: str
    fill: str
    width: str
    dots: tuple[str, ...]


_TIMES = (
    ("real", "As it is", "the loop as the script runs it", "real_s", "ink"),
    (
        "resident",
        "Data already there",
        "the same step with its batch at hand",
        "resident_s",
        "model",
    ),
    ("input", "Data alone", "the input without the model", "input_s", "data"),
    ("", "Host work", "Python and callbacks, within the step", "host_s", "host"),
)


def bar(diagnosis: Diagnosis) -> list[Piece]:
    """The real step split as in the terminal; empty where it cannot be split."""
    split = shares(diagnosis)
    if len(split) < 2:
        return []
    whole = sum(seconds for _, seconds, _ in split)
    pieces, start = [], 0.0
    for name, seconds, tone in split:
        share = seconds / whole
        said = units.share(share)
        pieces.append(
            Piece(
                name=name,
                fill=tone,
                x=percent(start),
                width=percent(share),
                middle=percent(start + share / 2),
                seconds=units.seconds(seconds),
                share=said,
                label=said if share >= ROOM else "",
            )
        )
        start += share
    return pieces


def times(diagnosis: Diagnosis) -> list[Taken]:
    """The times that were taken, on one scale from 0."""
    known = []
    for phase, name, what, field, fill in _TIMES:
        value = getattr(diagnosis.times, field)
        if value is not None:
            known.append((phase, name, what, value, fill))
    blocks = {phase: diagnosis.times.spread.get(phase, ()) for phase, *_ in known}
    longest = max(
        [value for *_, value, _ in known] + [b for many in blocks.values() for b in many],
        default=0.0,
    )
    if longest <= 0:
        return []
    longest *= 1.02
    return [
        Taken(
            name=name,
            what=what,
            seconds=units.seconds(value),
            blocks=_blocks(blocks[phase]),
            fill=fill,
            width=percent(value / longest),
            dots=tuple(percent(one / longest) for one in blocks[phase]),
        )
        for phase, name, what, value, fill in known
    ]


def _blocks(means: tuple[float, ...]) -> str:
    if len(means) < 2:
        return ""
    least, most = units.seconds(min(means)), units.seconds(max(means))
    return f"{units.count(len(means), 'block')}: {least} to {most}"
