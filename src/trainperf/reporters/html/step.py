"""The step as a bar taken apart, its parts, and the times it was computed from."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.report.plain import one_line
from trainperf.report.sections import parts
from trainperf.report.sections.shares import shares
from trainperf.reporters.html.drawing import percent
from trainperf.reporters.html.markup import clipped

_PARTS = {
    "input": "data",
    "transfer": "ranks",
    "zero_grad": "host",
    "forward": "model",
    "backward": "backward",
    "optimizer": "optimizer",
    "graph": "model",
    "sync": "exchange",
    "log": "host",
    "rest": "rest",
}
"""How the parts of a step are filled."""

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
    calls: str = ""


@dataclass(frozen=True)
class Operator:
    """An operator of the model, and its bar."""

    name: str
    calls: str
    seconds: str
    share: str
    width: str


@dataclass(frozen=True)
class Dot:
    """The mean of one block of steps."""

    x: str


@dataclass(frozen=True)
class Taken:
    """One of the times of a step: its bar, the blocks it is the mean of, and in words."""

    name: str
    what: str
    seconds: str
    blocks: str
    fill: str
    width: str
    dots: tuple[Dot, ...]


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
    return _pieces([(name, tone, took, None, "") for name, took, tone in split])


def by_parts(diagnosis: Diagnosis) -> list[Piece]:
    """Forward, backward and the other parts of a step whose calls were timed."""
    return _pieces(
        [
            (
                parts.NAMES[part.name][0],
                _PARTS.get(part.name, "rest"),
                part.seconds_per_step,
                part.share,
                f"{part.calls_per_step:.3g}" if part.calls_per_step else "",
            )
            for part in diagnosis.step_parts
            if part.share >= parts.WORTH_A_ROW
        ]
    )


def by_operators(diagnosis: Diagnosis) -> list[Operator]:
    """The dearest operators of forward and backward, as the terminal names them."""
    found = [one for one in diagnosis.operators if one.share >= parts._WORTH_AN_OPERATOR]
    return [
        Operator(
            name=clipped(one_line(one.name), 160),
            calls=f"{one.calls_per_pass:,.0f}" if one.calls_per_pass >= 1 else "<1",
            seconds=units.seconds(one.seconds_per_pass),
            share=units.share(one.share),
            width=percent(one.share / found[0].share),
        )
        for one in found[: parts.ROWS]
    ]


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
            dots=tuple(Dot(percent(one / longest)) for one in blocks[phase]),
        )
        for phase, name, what, value, fill in known
    ]


def _blocks(means: tuple[float, ...]) -> str:
    if len(means) < 2:
        return ""
    least, most = units.seconds(min(means)), units.seconds(max(means))
    return f"{units.count(len(means), 'block')}: {least} to {most}"


def _pieces(taken: list[tuple[str, str, float, float | None, str]]) -> list[Piece]:
    """Place (name, fill, seconds, share as reported, calls); a share is else of their sum."""
    whole = sum(part[2] for part in taken)
    if whole <= 0:
        return []
    pieces, start = [], 0.0
    for name, fill, seconds, reported, calls in taken:
        share = seconds / whole
        said = units.share(share if reported is None else reported)
        pieces.append(
            Piece(
                name=name,
                fill=fill,
                x=percent(start),
                width=percent(share),
                middle=percent(start + share / 2),
                seconds=units.seconds(seconds),
                share=said,
                label=said if share >= ROOM else "",
                calls=calls,
            )
        )
        start += share
    return pieces
