"""How fixes say places, and when a bound is worth saying at all; quantities as everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.model import Evidence, Probe, Site
from trainperf.model.words import bound as times
from trainperf.model.words import seconds as ms
from trainperf.model.words import share as percent
from trainperf.model.words import size
from trainperf.recording.cells import short_spot
from trainperf.rewrite import Script

__all__ = [
    "at",
    "if_measured",
    "measured_or",
    "ms",
    "percent",
    "probe_said",
    "recorded_site",
    "size",
    "times",
    "worth",
]


SMALLEST_GAIN = 0.05
"""A bound below this is not worth a reader's time, however quiet the machine was."""

NOISES = 2.0
"""How many times the noise of the times a bound must exceed: below, it may be nothing."""

MIB, GIB, MB, GB = 1024**2, 1024**3, 10**6, 10**9

Edit = Callable[["Script"], None]
T = TypeVar("T")
Other = TypeVar("Other")


def at(site: Site | None) -> str:
    """Say a place as a reader looks it up: "train.py:14", "cell 3, line 7"; nothing if unknown."""
    if site is None:
        return ""
    return short_spot(site.file, site.line)


def recorded_site(place: Any) -> Site | None:
    """Return a place as a process records it; None if it recorded none."""
    if not isinstance(place, dict) or not place.get("file"):
        return None
    return Site(**{name: value for name, value in place.items() if value is not None})


def measured_or(otherwise: Other, value: Callable[[], T]) -> T | Other:
    """Return a value, or `otherwise` where a number that it is made of was not taken."""
    try:
        return value()
    except NotMeasured:
        return otherwise


def if_measured(text: Callable[[], str]) -> str:
    """Return a text whose numbers may be missing: "" where one of them was not taken."""
    return measured_or("", text)


def probe_said(evidence: Evidence, name: str, what: str) -> str:
    """Say what a probe gave, as a sentence that begins with a space; "" where it tells nothing.

    `what` is what it ran, at the start of the sentence: "With fused=True the same update".
    """
    made = evidence.probes.get(name)
    if not isinstance(made, Probe) or (made.vague and made.low <= 1):
        return ""
    return f" {what} ran {times(made.ratio)} as fast ({ms(made.base_s)} → {ms(made.candidate_s)})."


def worth_counted(bound: float) -> bool:
    """Say whether a speed-up of at most `bound` is worth a word, whatever the times' noise.

    For causes that the kernel or the driver counts, and that may themselves be the noise.
    """
    return bound > 1 + SMALLEST_GAIN


def worth(evidence: Evidence, bound: float) -> bool:
    """Say whether a speed-up of at most `bound` stands out of the noise of the times.

    The line is 1 + the larger of 5 % and twice the relative noise of the measured
    step. Raises nothing: unknown noise counts as 10 % (`Times.noise`).
    """
    return bound > 1 + max(SMALLEST_GAIN, NOISES * evidence.times.noise)


def make_those_that_can_be(script: Script, edits: Iterable[Edit]) -> None:
    """Make each edit, whole or not at all; raises what refused the first where none can be made."""
    refused: list[CannotRewrite] = []
    made = False
    for edit in edits:
        if reason := refusal(script, edit):
            refused.append(reason)
        else:
            edit(script)
            made = True
    if refused and not made:
        raise refused[0]


def refusal(script: Script, edit: Edit) -> CannotRewrite | None:
    """Return why an edit cannot be made in a script, which stays as it is; None where it can."""
    try:
        edit(script.copy())
    except CannotRewrite as error:
        return error
    return None
