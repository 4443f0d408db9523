"""How busy the machine was over the observed run, as lanes under a band of its phases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from trainperf.model import Timeline
from trainperf.model import words as units
from trainperf.report.plain import one_line
from trainperf.reporters.html.drawing import Tick, percent

PHASES = {
    "start-up": ("start-up", "rest"),
    "warmup": ("warm-up", "rest"),
    "real": ("the step as it is", "ink"),
    "resident": ("data already there", "model"),
    "local": ("without the exchange", "exchange"),
    "input": ("data alone", "data"),
    "profile": ("profiled", "host"),
    "exchange": ("the exchange, measured", "exchange"),
    "all_reduce": ("all-reduce alone", "exchange"),
    "stages": ("input, stage by stage", "data"),
    "probes": ("probes", "host"),
    "facts": ("facts read", "rest"),
    "between": ("to the end of the epoch", "rest"),
}
"""The names of the phases, and their fills."""

WORTH_DRAWING = 0.002
"""Share of the run below which a phase is left out."""

ROOM = 0.022
"""Share of the width from which a phase has room for its number."""

LANES = 8
"""GPUs that are drawn at most."""

_UNITS = 1000.0  # of the drawing, across; 100 upwards


LATE = 1.15
"""A sample that came late counts more than all cores; beyond this much, it is more indeed."""


@dataclass(frozen=True)
class Band:
    """A stretch of the run in one phase; `key` is its number in the legend."""

    key: int
    name: str
    fill: str
    x: str
    width: str
    middle: str
    roomy: bool


@dataclass(frozen=True)
class Phase:
    """A row of the legend."""

    key: int
    name: str
    fill: str
    seconds: str


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
    """The whole drawing."""

    bands: tuple[Band, ...]
    phases: tuple[Phase, ...]
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    omitted: str


def drawn(timeline: Timeline | None) -> Drawn | None:
    """Place the samples of a run; None where there are none to draw."""
    if timeline is None or timeline.seconds <= 0 or len(timeline.moments) < 2:
        return None
    gpus = max(len(moment.gpu_percent) for moment in timeline.moments)
    lanes = [lane for lane in (_cpu(timeline), *_gpus(timeline, min(gpus, LANES))) if lane]
    if not lanes:
        return None
    bands, phases = _phases(timeline)
    return Drawn(
        bands=tuple(bands),
        phases=tuple(phases),
        lanes=tuple(lanes),
        ticks=tuple(_ticks(timeline.seconds)),
        omitted=f"{LANES} of {gpus} GPUs are drawn." if gpus > LANES else "",
    )


def _phases(timeline: Timeline) -> tuple[list[Band], list[Phase]]:
    bands: list[Band] = []
    took: dict[str, float] = {}
    for span in timeline.phases:
        share = (span.end - span.start) / timeline.seconds
        if share < WORTH_DRAWING:
            continue
        took[span.phase] = took.get(span.phase, 0.0) + span.end - span.start
        name, fill = _called(span.phase)
        start = span.start / timeline.seconds
        bands.append(
            Band(
                key=list(took).index(span.phase) + 1,
                name=name,
                fill=fill,
                x=percent(start),
                width=percent(share),
                middle=percent(start + share / 2),
                roomy=share >= ROOM,
            )
        )
    phases = [
        Phase(key, *_called(phase), units.seconds(seconds))
        for key, (phase, seconds) in enumerate(took.items(), start=1)
    ]
    return bands, phases


def _called(phase: str) -> tuple[str, str]:
    """The name of a phase, and its fill."""
    return PHASES.get(phase, (one_line(phase), "rest"))


def _cpu(timeline: Timeline) -> Lane | None:
    own = [(moment.t, moment.cpu_cores) for moment in timeline.moments]
    whole = [(moment.t, moment.machine_cpu_cores) for moment in timeline.moments]
    known = [value for _, value in own if value is not None]
    if not known:
        return None
    others = [value for _, value in whole if value is not None]
    most = max(timeline.cores, *known, *others)
    if most <= timeline.cores * LATE:
        most = timeline.cores
    mean, peak = sum(known) / len(known), min(max(known), most)
    return Lane(
        key="cpu",
        name=f"CPU: cores busy, of {units.cores(timeline.cores)}",
        most=f"{most:.3g}",
        area=_area(own, timeline.seconds, most),
        line=_line(whole, timeline.seconds, most),
        words=f"The script kept {mean:.2g} cores busy on average, {peak:.2g} at most.",
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


def _runs(
    points: Sequence[tuple[float, float | None]], seconds: float, most: float
) -> Iterator[list[tuple[float, float]]]:
    """Places of neighbouring points; where a value is missing, the curve breaks."""
    for there, group in itertools.groupby(points, key=lambda point: point[1] is not None):
        if not there:
            continue
        yield [
            (
                min(max(t / seconds, 0.0), 1.0) * _UNITS,
                100.0 - 100.0 * min(max(value or 0.0, 0.0), most) / most,
            )
            for t, value in group
        ]


def _area(points: Sequence[tuple[float, float | None]], seconds: float, most: float) -> Markup:
    paths = []
    for run in _runs(points, seconds, most):
        along = "L".join(f"{x:.1f},{y:.1f}" for x, y in run)
        paths.append(f"M{run[0][0]:.1f},100L{along}L{run[-1][0]:.1f},100Z")
    return Markup("".join(paths))


def _line(points: Sequence[tuple[float, float | None]], seconds: float, most: float) -> Markup:
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
