"""What a fix finds: a cause, and what mending it saves, which is priced here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trainperf.errors import NotMeasured
from trainperf.fixes.common.pipeline import input_at_most
from trainperf.fixes.common.step import bound_if_saved, saved_by, step_may_matter
from trainperf.fixes.common.words import SMALLEST_GAIN, measured_or
from trainperf.model import (
    Category,
    Equivalence,
    Evidence,
    OwnCode,
    Probe,
    Site,
    Slices,
    StorageWait,
    TurnGain,
    Variant,
)

PROBE_LEAST = 1.05
"""The lower end of a probe's interval must be above this: 5 % is the smallest gain told."""

PROBED = "measured by a probe of this step in this run"
UNTRIED = "only trying it tells"

Seconds = Callable[[], float] | float | None


@dataclass(frozen=True)
class Saving:
    """What a repair takes out of each step, and what that rests on.

    `seconds` of a step that go, or a function that returns them; None, or a function that raises
    `NotMeasured`: nobody timed them, and only a trial tells. `most` are those at the favourable
    end, where more may go than by any noise of `seconds` or of the probe. They are seconds of the
    step itself (`of="step"`: a step is no shorter than its input), of what makes its batch
    (`"input"`: what a step waits for it can be saved at most), or of both (`"all"`). `ratio` says
    the speed-up at most in their place. A `probe` that ran the step as repaired counts before all
    others: of `seconds` it leaves what its ratio leaves, without them what it ran itself.
    """

    basis: str
    seconds: Seconds = None
    of: Literal["step", "input", "all"] = "step"
    ratio: Seconds = None
    probe: str = ""
    most: Seconds = None

    def probed(self, evidence: Evidence) -> Probe | None:
        """Return the probe, None where there is none or it was not taken."""
        made = evidence.probes.get(self.probe)
        return made if isinstance(made, Probe) else None

    def bound(self, evidence: Evidence, *, by_probe: bool = True) -> float | None:
        """Return the speed-up of a step at most, None where it was not measured.

        Below 1 where a probe was slower for sure. `by_probe` False passes the probe over.
        """
        made = self.probed(evidence) if by_probe else None
        if made is not None and made.high <= 1:
            return made.high
        seconds, ratio = _taken(self.seconds), _taken(self.ratio)
        try:
            if made is not None:
                part = saved_by(evidence, made)
                return bound_if_saved(
                    evidence, part if seconds is None else seconds * (1 - 1 / made.ratio)
                )
            if seconds is None:
                return ratio
            if self.of == "input":
                return max(1.0, evidence.bound_if_input_saves(seconds))
            if self.of == "all":
                return evidence.bound_if_step_saves(seconds)
            return bound_if_saved(evidence, seconds)
        except NotMeasured:
            return None

    def may_matter(self, evidence: Evidence) -> bool:
        """Whether it could be worth anything, for all the noise allows, if it left nothing."""
        if self.of == "input":
            return input_at_most(evidence) > 1 + SMALLEST_GAIN
        return self.of == "all" or _step_at_ends(evidence)


@dataclass(frozen=True)
class Unpriced:
    """No bound can be given, and why not.

    One of the step is told, and tried, only where a step that costs nothing would be felt.
    """

    basis: str
    of: Literal["step", "other"] = "other"

    def may_matter(self, evidence: Evidence) -> bool:
        """Whether it could be worth anything, for all the noise allows."""
        return self.of == "other" or _step_at_ends(evidence)


def _step_at_ends(evidence: Evidence) -> bool:
    """Whether a faster step may be felt at either favourable end of the noise."""
    ends = (evidence.times.favourable(), evidence.times.waiting_least())
    return any(step_may_matter(replace(evidence, times=times)) for times in ends)


@dataclass(frozen=True)
class Cause:
    """What is slow, how it shows, where, and what mending it saves.

    `text` is the evidence in a sentence or two. Where `sure` is false nothing shows that it costs
    anything: it is told only if a trial keeps its repair. `advice` ("": the fix's summary) is what
    to do, `snippet` the code to paste, `data` what the edit needs, `category` that of this cause
    where it is another than the fix's; the rest is as in `Finding`.
    """

    title: str
    text: str
    saves: Saving | Unpriced
    where: tuple[Site, ...] = ()
    advice: str = ""
    snippet: str = ""
    sure: bool = True
    equivalence: Equivalence | None = None
    category: Category | None = None
    rewritable: bool | None = None
    data: dict[str, Any] = field(default_factory=dict)
    own: OwnCode | None = None
    waits: StorageWait | None = None
    slices: Slices = "steps"
    variants: tuple[Variant, ...] = ()
    samples_per_step: float = 1.0
    in_place: TurnGain | None = None


def _taken(value: Seconds) -> float | None:
    return measured_or(None, lambda: value() if callable(value) else value)
