"""From what was measured to what is said of a fix. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from trainperf.model import Control, Outcome, Ratio, Trial
from trainperf.recording.run import Epoch
from trainperf.trial.candidates import SMALLEST_GAIN, Candidate
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.trial.legs.leg import Leg, Slice
from trainperf.trial.parity import Band, Losses, judge
from trainperf.trial.ratio import Pair

ONE_OFF_S = 0.3
"""A one-off cost below this is not told from the start-up's own spread."""
FOR_LIFE = 1.35
"""Two processes of one script differ by no more than this: a gain beyond is one of the change."""
NOISY = 0.05
"""Where so much may be noise, two processes differ by more than their slices show: a change that
gives 1.5 times measured 0.64 (0.50 to 0.82) beside a busy neighbour, and 1.04 in another run."""
OF_NOISE = 0.5
"""This share of the control's half-width is asked of a gain beyond its own interval; see below."""


@dataclass(frozen=True)
class Start:
    """From the start of a process to its first update of the weights, in seconds.

    `ready_s` passed until its first slice, after a warm-up of `steps` steps of the unchanged
    script's size; None where it did not come to that. `cpu_s` are the seconds that it computed
    until then, on all cores and with the processes it waited for; None if not known.
    """

    seconds: float
    cpu_s: float | None = None
    ready_s: float | None = None
    steps: float = 0.0

    def lead_s(self, step_s: float) -> float:
        """Seconds beyond its steady steps of `step_s`: what a training takes once."""
        return self.seconds if self.ready_s is None else self.ready_s - self.steps * step_s


def start_of(leg: Leg) -> Start | None:
    """The start of a leg, of which others' turns are no part; None where it made no update."""
    first = next((event for event in leg.trained if event["e"] == "first_update"), None)
    if first is None:
        return None
    start = Start(leg.own_s(float(first["t"])), first.get("cpu"))
    ready = next((event for event in leg.trained if event["e"] == "leg"), None)
    if ready is None:
        return start
    steps = float(ready["steps"]) * leg.work_per_step
    ready_s = leg.own_s(float(ready["t"]))
    return replace(start, ready_s=ready_s, steps=steps, cpu_s=ready["cpu"])


@dataclass(frozen=True)
class Measured:
    """The result for a candidate: its pairs, the ratio if there were enough, and the losses.

    `start` is what passed up to its first update of the weights, `note` how it was measured where
    that was another way than that of the others. `needless` says why it could change nothing.
    """

    candidate: Candidate
    ratio: Ratio | None = None
    losses: Losses | None = None
    failure: LegFailed | None = None
    start: Start | None = None
    pairs: tuple[Pair, ...] = ()
    note: str = ""
    needless: str = ""

    @property
    def name(self) -> str:
        """The candidate's name."""
        return self.candidate.name

    @property
    def holds(self) -> Epoch | None:
        """What its slices held: epochs like this one; None: steps."""
        return self.candidate.holds

    @property
    def late(self) -> bool:
        """Whether nothing but time was missing for a ratio."""
        failed = self.failure and not isinstance(self.failure, OutOfTime)
        return self.ratio is None and not failed and not self.needless


@dataclass(frozen=True)
class Baseline:
    """The unchanged script: its step, its losses, its starts, and how it meets itself.

    `step_s` is seconds for a step, `own_s` what trainperf's hooks take of it.
    `start_spread_s` is how far two starts of it lay apart.
    """

    step_s: float
    own_s: float
    losses: Losses | None
    band: Band
    control: Control | None
    start: Start | None = None
    start_spread_s: float = 0.0


def baseline(
    slices: Sequence[Slice],
    losses: Losses | None,
    band: Band,
    ratio: Ratio | None,
    starts: Iterable[Start | None],
) -> Baseline:
    """Put together what was measured of the unchanged script in `slices`, at least one."""
    known = [start for start in starts if start is not None]
    step_s = statistics.median(piece.seconds / piece.work for piece in slices)
    own_s = statistics.median(piece.own_s / piece.steps for piece in slices)
    leads = [start.lead_s(step_s) for start in known] or [0.0]
    first, spread_s = next(iter(known), None), max(leads) - min(leads)
    return Baseline(step_s, own_s, losses, band, control_of(ratio, band), first, spread_s)


def floor(control: Control | None) -> float:
    """The gain, as a share, below which nothing is kept."""
    return max(SMALLEST_GAIN, control.floor if control is not None else SMALLEST_GAIN)


def control_of(ratio: Ratio | None, band: Band) -> Control | None:
    """The control from the ratio of the script to itself; None without one.

    A control that is surely not 1 shows what two legs differ by, and all of it counts as its floor.
    Else it shows the noise, which widens the interval of a candidate as well: of the difference
    between two ratios, each known to h, one is known to h × √2, so that 0.41 h are missing there.
    In simulated trials it kept 65 % of true gains of 20 % among bursts, where the far end of the
    control's interval kept 37 %, and at most 0.2 % of candidates that gain nothing (1 % where legs
    differ by 2 % by themselves).
    """
    if ratio is None:
        return None
    half = math.log(ratio.high / ratio.low) / 2
    least = max(math.expm1(OF_NOISE * half), abs(ratio.speedup - 1))
    if ratio.low > 1 or ratio.high < 1:
        least = max(ratio.high - 1, 1 - ratio.low)
    return Control(
        **asdict(ratio),
        floor=least,
        reproducible=band.reproducible,
        loss_band=band.relative if band.reproducible is not None else None,
    )


def trial(
    measured: Measured,
    baseline: Baseline,
    why_late: str = "out of budget before it could be compared",
) -> Trial:
    """The trial of one fix alone; `why_late` says why there was no time for it."""
    candidate, found, control = measured.candidate, measured.ratio, baseline.control
    if found is None and measured.needless:
        return candidate.skipped(measured.needless)
    untried = replace(candidate.skipped(why_late, late=True), note=measured.note)
    if found is None and measured.late:
        return untried
    untried = replace(untried, late=False)
    if found is None:
        return untried.dropped(Outcome.FAILED, str(measured.failure))
    parity = judge(candidate.equivalence, baseline.losses, measured.losses, baseline.band)
    least = floor(control)
    outcome, reason = Outcome.KEPT, "" if parity.ok else "its losses could not be compared"
    if measured.failure:
        outcome, reason = Outcome.FAILED, str(measured.failure)
    elif parity.ok is False:
        outcome, reason = Outcome.LOSSES_DIFFER, parity.text
    elif found.high < 1 / max(1 + least, FOR_LIFE if least > NOISY else 1.0):
        outcome, reason = Outcome.SLOWER, ""
    elif found.low <= 1 + least:
        outcome, reason = Outcome.NO_EFFECT, _why_not(found, control, least)
    one_off, even = break_even(measured, baseline)
    return replace(
        untried,
        outcome=outcome,
        reason=reason,
        **asdict(found),
        parity=parity.text,
        same=parity.ok,
        kept=outcome is Outcome.KEPT,
        one_off_s=one_off,
        break_even_steps=even,
    )


def _why_not(found: Ratio, control: Control | None, least: float) -> str:
    if found.low > 1 and control is not None and control.floor > SMALLEST_GAIN:
        figure = f"{least * 100:.0f}" if least >= 0.0995 else f"{least * 100:.1f}"
        return f"gains below {figure} % could be noise here"
    if found.high < 1 / (1 + least):
        return "slower, by no more than two processes of one script may differ here"
    if found.speedup > 1 + SMALLEST_GAIN:
        return f"not told from noise in {found.pairs} pairs"
    if found.low > 1:
        return f"a gain below {SMALLEST_GAIN * 100:.0f} % is not worth an edit"
    return ""


def break_even(measured: Measured, baseline: Baseline) -> tuple[float | None, int | None]:
    """The one-off cost of a change, beyond the spread of starts, and the steps that earn it."""
    if measured.ratio is None:
        return None, None
    extra = once_s(measured.start, baseline, measured.ratio.speedup)
    saved = baseline.step_s * (1 - 1 / measured.ratio.speedup)
    return (extra, math.ceil(extra / saved)) if extra and saved > 0 else (None, None)


def once_s(start: Start | None, baseline: Baseline, speedup: float) -> float | None:
    """Seconds that a changed script takes once, more than the unchanged one; None if not known.

    Compiling, filling a cache, starting workers: all up to its slices that is not `speedup`
    times as fast as the unchanged script's steps. Legs that start beside each other hold each
    other up: what one computed more, on all cores, is the most that counts. 0 within the spread of
    starts, or where it started sooner: the unchanged script starts beside more legs.
    """
    usual, step_s = baseline.start, baseline.step_s
    if start is None or usual is None:
        return None
    if start.ready_s is None or usual.ready_s is None:
        extra = start.seconds - usual.seconds
    else:
        extra = start.lead_s(step_s / speedup) - usual.lead_s(step_s)
    if start.cpu_s is not None and usual.cpu_s is not None:
        extra = min(extra, max(0.0, start.cpu_s - usual.cpu_s))
    return extra if extra >= max(ONE_OFF_S, 2 * baseline.start_spread_s) else 0.0
