"""A changed leg against the unchanged script: its slices, its pairs, and when it is decided.

Slices hold steps, or whole epochs: none is compared with one of another kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from trainperf.child.timing.legs import words
from trainperf.model import Ratio
from trainperf.recording.run import Epoch
from trainperf.trial import parity
from trainperf.trial.budget import (
    MIN_PAIRS,
    SLICE_S,
    Clock,
    Costs,
    epochs_of_slice,
    settle_steps,
    slice_steps,
)
from trainperf.trial.candidates import SMALLEST_GAIN, Candidate
from trainperf.trial.legs.faults import LegFailed, OutOfMemory
from trainperf.trial.legs.leg import Leg, Slice
from trainperf.trial.outcome import control_of, floor
from trainperf.trial.ratio import FEWEST, Pair, ratio

FAR = 0.25
"""A gain beyond this, with its whole interval, may be decided by fewer pairs."""
MAX_PAIRS = 24
"""So many pairs a change has at most whose interval tells what it gives."""
MOST_PAIRS = 36
"""So many where fewer leave open whether there is a gain."""
OF_CONTROL = 12
"""So many pairs the control has at most: what is kept is measured once more beside another."""
MOST_TO_JUDGE = 150
"""So many pairs each process has of a change that is to be judged, if they say nothing else."""
WORTH = 0.05
"""A change that gives less than this, by its whole interval, is not looked at more closely."""
HASTE = 0.02
"""By so much the interval of fewer than `MIN_PAIRS` pairs must clear what decides."""
WIDE = 0.15
"""An interval narrower than this share of the speed-up tells what a change gives. With twice as
many pairs as decide any does that lies above the noise: what is kept is measured once more in
processes of its own. That of a large gain may be wider, by the root of the speed-up: nobody
decides by its last percent."""
ALIGNMENTS = 3
"""A slice that begins where an epoch does may count its opening or not: the next one begins a
step later."""
FASTEST = 4.0
"""From one slice to the next its number of steps grows by no more than this factor."""
SHORT_TRIES = 4
"""A leg of which so many slices in a row ran short of GPU memory does so beside these others."""
SHORT = "ran short of GPU memory in every slice, so that its allocator had to give some back"
HANG_S = 10.0
HANG_TIMES = 20.0
"""A slice that takes so many times what slices take, and so many seconds, hangs."""
LEAST_BESIDE, BESIDE, BESIDE_S = 2, 3, 1.5
"""So many slices of changes stand between two of the script, three if they take no longer:
neighbours come and go in seconds."""
LONG_TURN_S = 3.0
"""What the end of a turn takes once (tracing an evaluation) is little of one that takes so long."""

Asked = Callable[[], bool]
Rule = Callable[["Contest", float], bool]
"""Whether a contest is decided, by the gain that may be noise."""


@dataclass(eq=False)
class Contest:
    """One changed leg against the unchanged script: its pairs, and whether it is `decided`.

    It has `entered` once there was a slot for it. It is of a `candidate`; None: the control, in
    slices of the kind that `holds` tells. Where the loop of its `leg` ended by itself another goes
    on, and `first` is the one whose training is told of.
    """

    leg: Leg
    candidate: Candidate | None = None
    pairs: list[Pair] = field(default_factory=list)
    failure: LegFailed | None = None
    needless: str = ""
    entered: bool = False
    decided: bool = False
    holds: Epoch | None = None
    first: Leg = field(init=False)
    _known: tuple[int, Ratio | None] = (0, None)

    def __post_init__(self) -> None:
        self.first = self.leg
        if self.candidate is not None:
            self.holds = self.candidate.holds

    @property
    def ratio(self) -> Ratio | None:
        """The speed-up until now; None while there are too few pairs."""
        count = len(self.pairs)
        if self._known[0] != count:
            self._known = count, ratio(self.pairs) if count >= FEWEST else None
        return self._known[1]

    @property
    def gains(self) -> bool:
        """Whether it has shown a gain, which is kept once the control has told of the noise."""
        return self.ratio is not None and self.ratio.low > 1 + SMALLEST_GAIN

    @property
    def near(self) -> bool:
        """Whether that gain may be noise; in long slices none beyond this: it is measured again."""
        far = self.holds is not None and self.ratio is not None and self.ratio.low > (1 + FAR) ** 2
        return self.gains and not far

    @property
    def fixes(self) -> tuple[str, ...]:
        """Those that it tries; the control none."""
        return () if self.candidate is None else self.candidate.fixes

    @property
    def is_judged(self) -> bool:
        """Whether somebody wants to know what it gives, whatever that is."""
        return self.candidate is not None and self.candidate.difference is not None


def take(
    leg: Leg, step_s: float, slowest_s: float, asked: Asked, epoch: Epoch | None = None
) -> tuple[Slice | None, float]:
    """Let a leg run one slice; return it with what a step takes, for the next one's size.

    `step_s` is what a step took before, `slowest_s` the longest slice that did not hang. Slices
    grow as steps get shorter, but not at once. With an `epoch` they hold whole ones, and what
    passes between them beside the start of the input, which a leg leaves out, is added.
    """
    steps, holds = slice_steps(step_s, leg.waits_every), words.STEPS_ONLY
    turns = epoch
    if epoch is not None:
        # several steps a call, or several batches' samples a step: the last turn may hold less
        turns = replace(epoch, steps=max(1, math.ceil(epoch.steps / max(leg.work_per_step, 1.0))))
        steps = turns.steps * epochs_of_slice(turns, step_s)
        holds = words.AS_WRITTEN if epoch.written else words.WHOLE
    settle = settle_steps(step_s, leg.settles or epoch is not None)
    limit = max(HANG_S, HANG_TIMES * max(SLICE_S, step_s * (steps + 1), slowest_s))
    for more in range(ALIGNMENTS):
        piece = leg.run_slice(steps, settle + more, limit, asked, holds)
        if piece is None:
            return None, step_s
        if epoch is not None and turns is not None and not epoch.written:
            count = piece.steps if turns.steps == 1 and piece.epochs else piece.epochs
            if count is None or count * turns.steps != piece.steps:
                continue
            seconds = piece.seconds + count * epoch.pause_s
            work = float(count * epoch.steps)
            piece = replace(piece, seconds=seconds, epochs=count, work=work)
        return piece, max(piece.seconds / piece.steps, step_s / FASTEST)
    assert turns is not None
    if turns.steps == 1:
        raise LegFailed("makes an epoch one step long, so that its steps cannot be compared")
    what = f"makes epochs that do not all have {turns.steps:,} steps, so none could be compared"
    raise LegFailed(what)


def enough(contest: Contest, floor: float) -> bool:
    """Whether more pairs would not change what is said of a change.

    `floor` is the gain that may be noise, as a share. It is over as soon as its interval excludes
    a gain of `WORTH`, the smallest that would be worth making, or leaves no doubt that it pays:
    either takes few pairs where the change is far from it. With `MIN_PAIRS` half the distance to
    the interval's end is enough. In simulated pairs that scatter by 8 % a change that gives nothing
    takes 7 pairs so, 12 with all of the distance, and one of 2 % takes 10, not 17; of gains of 8 %
    87 % are kept, not 89 %, of those that give nothing 3 %, not 2 %, until they are repeated.
    """
    count, found = len(contest.pairs), contest.ratio
    if found is None:
        return False
    few = count < MIN_PAIRS
    end = found.high if few else math.sqrt(found.speedup * found.high)
    if end < 1 + WORTH - (HASTE if few else 0.0):
        return True
    narrow = _is_narrow(found)
    told = narrow or count >= 2 * MIN_PAIRS
    if told and found.low > 1 + floor + (FAR if few else 0.0):
        return True
    return count >= (MAX_PAIRS if narrow else MOST_PAIRS)


def _is_narrow(found: Ratio) -> bool:
    return found.high - found.low <= WIDE * math.sqrt(max(1.0, found.speedup)) * found.speedup


def is_settled(found: Ratio, difference: float, floor: float) -> bool:
    """Whether it is known if a change is faster or slower by a `difference`, or by less than that.

    What is faster or slower is to have a figure as well: its interval is to be narrow.
    """
    if found.pairs < MIN_PAIRS:
        return False
    if 1 / (1 + difference) < found.low and found.high < 1 + difference:
        return True
    least = 1 + max(difference, floor) + (HASTE if found.pairs < MAX_PAIRS else 0.0)
    return _is_narrow(found) and (found.low > least or found.high < 1 / least)


class Series:
    """The slices of one kind that the script made, and what they tell of those compared in them.

    `costs` tell what slices hold and take, `over` when a contest is decided. The `control` is the
    script against itself.
    """

    def __init__(self, costs: Costs, control: Contest, over: Rule = enough) -> None:
        self.costs, self.control, self.over = costs, control, over
        self.holds = costs.epoch  # whole epochs as long as this one; None: steps
        self.slices: list[Slice] = []
        self.compared_s = 0.0
        self._step_s: dict[Leg, float] = {}  # of a turn of each leg's loop

    @property
    def beside_each_other(self) -> int:
        """How many slices of changes stand between two of the script."""
        return max(LEAST_BESIDE, min(BESIDE, int(BESIDE_S / self.costs.slice_s)))

    @property
    def tells_noise(self) -> bool:
        """Whether it is known which gain may be noise, as well as it will be told at least."""
        return self.control.decided or len(self.control.pairs) >= MIN_PAIRS

    @property
    def least(self) -> float:
        """The gain that may be noise; a large one as long as the control does not tell."""
        if not self.tells_noise:
            return FAR
        return floor(control_of(self.control.ratio, parity.control(None, None)))

    def is_over(self, contest: Contest, known: Ratio | None, least: float) -> bool:
        """Whether more pairs of a change would tell no more; `least` is the gain that is noise.

        In all processes that run it, its speed-up is `known`.
        """
        candidate, count = contest.candidate, len(contest.pairs)
        assert candidate is not None
        if candidate.difference is None:
            return count >= candidate.pairs and self.over(contest, least)
        settled = known is not None and is_settled(known, candidate.difference, least)
        return settled or count >= MOST_TO_JUDGE

    def waits(self, contest: Contest) -> bool:
        """Whether nothing but the control can decide a contest."""
        if self.tells_noise or contest.is_judged or contest.candidate is None:
            return False
        return self.is_over(contest, contest.ratio, SMALLEST_GAIN)

    def control_helps(self, own: Sequence[Contest], made_any: bool) -> bool:
        """Whether more pairs of the control may change what is said of any of its `own` contests.

        So until it tells, of what gains, is not decided or is to be tried alone, or fails: the
        script itself may fail beside itself. Then where a gain is judged, or lies within what may
        be noise. Where slices hold whole epochs, only what waits for it. Until the script has
        `made_any` slice it is measured beside its control.
        """
        if self.control.decided:
            return False
        if self.over is not enough or not made_any:
            return True
        if self.control.leg.starting and any(contest.failure for contest in own):
            return True
        if self.tells_noise:
            noise = 1 + self.least
            return any(
                (contest.is_judged and not contest.decided)
                or (contest.ratio is not None and 1 + SMALLEST_GAIN < contest.ratio.low <= noise)
                for contest in own
            )
        if self.holds is not None:
            return any(contest.near and (contest.decided or self.waits(contest)) for contest in own)
        return any(
            contest.near or not contest.decided or isinstance(contest.failure, OutOfMemory)
            for contest in own
        )

    def met_itself(self, own: Sequence[Contest]) -> bool:
        """Whether the control has told the noise as well as its `own` contests need it."""
        if self.control.failure or self.control.decided:
            return True
        if any(contest.is_judged and not contest.decided for contest in own):
            return False
        if self.over is not enough:
            return self.over(self.control, self.least)
        count = len(self.control.pairs)
        return count >= OF_CONTROL or (count >= MIN_PAIRS and self.least <= SMALLEST_GAIN)

    def slice_of(self, leg: Leg, base: Leg, clock: Clock) -> Slice | None:
        """A slice of a leg, or of `base`, the script as it is; None if the time is over."""
        if clock.over():
            return None
        turn_s, holds = self._step_s.get(base), self.holds
        unchanged_s = self.costs.step_s if turn_s is None else turn_s / base.work_per_step
        step_s = self._step_s.get(leg) or unchanged_s * leg.work_per_step
        # it warmed up in steps: its first slice of turns may be longer than the others
        traces_once = holds is not None and holds.written and holds.seconds < LONG_TURN_S
        for _ in range(SHORT_TRIES):
            piece, took_s = take(leg, step_s, base.slowest_s, clock.over, holds)
            if piece is None:
                return None
            first = leg not in self._step_s
            self._step_s[leg] = took_s
            if piece.retries or (first and traces_once):
                continue
            self.compared_s += piece.seconds
            if leg is base:
                self.slices.append(piece)
            return piece
        leg.failure = OutOfMemory(SHORT)
        raise leg.failure
