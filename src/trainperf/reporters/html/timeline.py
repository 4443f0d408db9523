"""How busy the machine was over the observed run, as lanes under a band of its phases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from trainperf.model import Timeline
from trainperf.model import words as units
from trainperf.reporters.html.drawing import Tick, percent

FILLS = {
    "real": "ink",
    "resident": "model",
    "local": "exchange",
    "exchange": "exchange",
    "all_reduce": "exchange",
    "input": "data",
    "stages": "data",
    "profile": "host",
    "probes": "host",
}
"""The fills of the phases, "rest" for others."""

NAMES = {
    "rest": "start-up, warm-up, ends of epochs",
    "ink": "the step as it is",
    "model": "the step, its data already there",
    "exchange": "the exchange, and steps without it",
    "data": "the input alone",
    "host": "probes and profiles",
}
"""What passes in a phase of that fill."""

WORTH_DRAWING = 0.002
"""Share of the run below which a phase is left out."""

LANES = 8
"""GPUs that are drawn at most."""

_UNITS = 1000.0  # of the drawing, across; 100 upwards

Points = Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Band:
    """A stretch of the run in one phase."""

    fill: str
    x: str
    width: str


@dataclass(frozen=True)
class Lane:
    """One curve: a filled one, and a thin one above it where there are two."""

    key: str
    name: str
    most: str
    area: Markup
    line: Markup
    words: str


@dataclass(frozen=True)
class Drawn:
    """The whole drawing; `phases` are the rows of its legend: fill, name and time."""

    bands: tuple[Band, ...]
    phases: tuple[tuple[str, str, str], ...]
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]


def drawn(timeline: Timeline | None) -> Drawn | None:
    """Place the samples of a run; None where there are none to draw."""
    if timeline is None or timeline.seconds <= 0 or len(timeline.moments) < 2:
        return None
    gpus = max(len(moment.gpu_percent) for moment in timeline.moments)
    lanes = [lane for lane in (_cpu(timeline), *_gpus(timeline, min(gpus, LANES))) if lane]
    if not lanes:
        return None
    bands: list[Band] = []
    took = dict.fromkeys(NAMES, 0.0)
    for span in timeline.phases:
        share = (span.end - span.start) / timeline.seconds
        if share >= WORTH_DRAWING:
            fill = FILLS.get(span.phase, "rest")
            took[fill] += span.end - span.start
            bands.append(Band(fill, percent(span.start / timeline.seconds), percent(share)))
    phases = [(fill, NAMES[fill], units.seconds(time)) for fill, time in took.items() if time]
    return Drawn(tuple(bands), tuple(phases), tuple(lanes), tuple(_ticks(timeline.seconds)))


def _cpu(timeline: Timeline) -> Lane | None:
    own = [(moment.t, moment.cpu_cores) for moment in timeline.moments]
    whole = [(moment.t, moment.machine_cpu_cores) for moment in timeline.moments]
    known = [value for _, value in own if value is not None]
    if not known:
        return None
    most = timeline.cores
    return Lane(
        key="cpu",
        name=f"CPU: cores busy, of {units.cores(most)}",
        most=f"{most:.3g}",
        area=_area(own, timeline.seconds, most),
        line=_line(whole, timeline.seconds, most),
        words=f"The script kept {sum(known) / len(known):.2g} cores busy on average.",
    )


def _gpus(timeline: Timeline, many: int) -> Iterator[Lane]:
    for index in range(many):
        points = [
            (moment.t, moment.gpu_percent[index] if index < len(moment.gpu_percent) else None)
            for moment in timeline.moments
        ]
        known = [value for _, value in points if value is not None]
        if known:
            mean = sum(known) / len(known)
            yield Lane(
                key=f"gpu{index}",
                name=f"GPU {index}: % of the time in which a kernel ran",
                most="100 %",
                area=_area(points, timeline.seconds, 100.0),
                line=Markup(),
                words=f"A kernel ran on GPU {index} for {mean:.0f} % of the time on average.",
            )


def _runs(points: Points, seconds: float, most: float) -> Iterator[list[tuple[float, float]]]:
    """Places of neighbouring points; where a value is missing, the curve breaks."""
    for there, group in itertools.groupby(points, key=lambda point: point[1] is not None):
        if there:
            yield [
                (
                    min(max(t / seconds, 0.0), 1.0) * _UNITS,
                    100.0 - 100.0 * min(max(value or 0.0, 0.0), most) / most,
                )
                for t, value in group
            ]


def _area(points: Points, seconds: float, most: float) -> Markup:
    paths = []
    for run in _runs(points, seconds, most):
        along = "L".join(f"{x:.1f},{y:.1f}" for x, y in run)
        paths.append(f"M{run[0][0]:.1f},100L{along}L{run[-1][0]:.1f},100Z")
    return Markup("".join(paths))


def _line(points: Points, seconds: float, most: float) -> Markup:
    runs = _runs(points, seconds, most)
    return Markup("".join("M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in run) for run in runs))


def _ticks(whole: float) -> Iterator[Tick]:
    """Marks at round seconds, about five of them."""
    raw = whole / 5
    unit = 10.0 ** math.floor(math.log10(raw))
    every = next(unit * many for many in (1, 2, 5, 10) if unit * many >= raw)
    at = 0.0
    while at <= whole * 0.97:
        yield Tick(percent(at / whole), f"{at:g} s" if at else "0")
        at += every
