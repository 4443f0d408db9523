"""A changed leg against the unchanged script: its slices, its pairs, and when it is decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from trainperf.child.timing.legs import words
from trainperf.model import Ratio
from trainperf.recording.run import Epoch
from trainperf.trial.candidates import SMALLEST_GAIN, Candidate
from trainperf.trial.legs.faults import LegFailed
from trainperf.trial.legs.leg import Leg, Slice
from trainperf.trial.ratio import FEWEST, Pair, ratio

SLICE_S = 0.3
"""A slice is about so long: short against a neighbour's bursts (seconds), long against
what stopping and waking costs (a few milliseconds)."""
SETTLE_S = 0.05
"""So long caches and thread pools are cold after a leg was woken, and at least one step:
steps of 2 ms read 12 % too long in slices that dropped one step only."""
LEAST_S = 0.5
LEAST_STEPS = 2
"""A slice has so many steps, and three where they take no longer than that: its first one counts
for nobody."""
SLOW_STEP_S = 0.5
"""From this step time on a slice is a single step."""
MIN_PAIRS = 6
"""Fewer pairs decide only what is far from 1."""
FAR = 0.25
"""A gain beyond this, with its whole interval, may be decided by fewer pairs."""
MAX_PAIRS = 24
"""So many pairs a change has at most whose interval tells what it gives."""
OF_CONTROL = 12
"""So many pairs the control has at most: what is kept is measured once more beside another."""
MOST_TO_JUDGE = 150
"""So many pairs a change has that somebody wants judged, if nothing else is to be said of it."""
MOST_PAIRS = 36
"""So many pairs where fewer leave open whether there is a gain."""
WORTH = 0.05
"""A change that gives less than this, by its whole interval, is not looked at more closely."""
WORTH_ANOTHER = 0.1
"""The same of one that makes another experiment: nobody does so for less."""
HASTE = 0.02
"""By so much the interval of fewer than `MIN_PAIRS` pairs must clear what decides."""
WIDE = 0.15
"""An interval narrower than this share of the speed-up tells what a change gives. With twice as
many pairs as decide any does that lies above the noise: what is kept is measured once more in
processes of its own. That of a large gain may be wider, by the root of the speed-up: nobody
decides by its last percent."""
AS_GOOD = 1.03
"""Of two ways to make a change, one that is at most so much better is not looked for."""
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

Asked = Callable[[], bool]
Rule = Callable[["Contest", float, float], bool]
"""Whether a contest is decided, by the gain that may be noise and the one that is worth making."""


@dataclass(eq=False)
class Contest:
    """One changed leg against the unchanged script: its pairs, and whether it is `decided`.

    It is of a `candidate`; None: the control, in slices of the kind that `holds` tells. Where the
    loop of its `leg` ended by itself another goes on, and `first` is the one whose training is told
    of. A change that somebody wants judged runs in two processes: `twin` is the other one, and the
    one that is there `again` tells no more than that.
    """

    leg: Leg
    candidate: Candidate | None = None
    pairs: list[Pair] = field(default_factory=list)
    failure: LegFailed | None = None
    needless: str = ""
    decided: bool = False
    twin: Contest | None = None
    again: bool = False
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
    def race(self) -> str:
        """What it runs against others for: several values of one fix. "" for none."""
        one = self.candidate
        return "+".join(one.fixes) if one is not None and one.variant else ""

    @property
    def difference(self) -> float | None:
        """By what it is to be known to be faster or slower, if somebody wants that judged."""
        return None if self.candidate is None else self.candidate.difference

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
    def worth(self) -> float:
        """The gain below which it is not looked at more closely, as a share."""
        if self.candidate is None:
            return WORTH
        return self.candidate.worth(WORTH_ANOTHER if self.candidate.apart else WORTH)

    @property
    def hope(self) -> float:
        """The speed-up at the favourable end of what is known of it."""
        if self.ratio is not None:
            return self.ratio.high
        return self.candidate.hope if self.candidate is not None else 1.0 + FAR


def take(
    leg: Leg, step_s: float, slowest_s: float, asked: Asked, epoch: Epoch | None = None
) -> tuple[Slice | None, float]:
    """Let a leg run one slice; return it with what a step takes, for the next one's size.

    `step_s` is what a step took before, `slowest_s` the longest slice that is known to
    be none that hangs. A change may make steps much shorter: slices grow with it, but
    not at once. With an `epoch` the slice holds whole ones, and what passes between them
    beside the start of the input, which a leg leaves out, is added. Raises `LegFailed`.
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
    what = f"its epochs do not all have {turns.steps:,} steps, so none could be compared"
    raise LegFailed(what)


def epochs_of_slice(epoch: Epoch, step_s: float) -> int:
    """How many whole epochs make a slice long enough, of steps of `step_s` seconds."""
    return max(1, math.ceil(SLICE_S / max(epoch.steps * step_s, 1e-6)))


def slice_steps(step_s: float, every: int = 1) -> int:
    """How many steps make a slice, where one takes `step_s` seconds: a multiple of `every`."""
    least = 1 if step_s >= SLOW_STEP_S else max(LEAST_STEPS, min(3, int(LEAST_S / step_s)))
    steps = max(least, math.ceil(SLICE_S / max(step_s, 1e-6)))
    return math.ceil(steps / every) * every


def settle_steps(step_s: float, settles: bool = True) -> int:
    """How many steps at the start of a slice count for nobody, each of `step_s` seconds.

    None where a step takes as long as a slice, and the first one of it is like the others: what
    is cold at its start is little of it.
    """
    if not settles and step_s >= SLICE_S:
        return 0
    return max(1, math.ceil(SETTLE_S / max(step_s, 1e-6)))


def enough(contest: Contest, floor: float, worth: float = WORTH) -> bool:
    """Whether more pairs would not change what is said of a change.

    `floor` is the gain that may be noise, as a share. It is over as soon as its interval excludes
    a gain of `worth`, the smallest that would be worth making, or leaves no doubt that it pays:
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
    if end < 1 + worth - (HASTE if few else 0.0):
        return True
    width = (found.high - found.low) / found.speedup
    narrow = width <= WIDE * math.sqrt(max(1.0, found.speedup))
    told = narrow or count >= 2 * MIN_PAIRS
    if told and found.low > 1 + floor + (FAR if few else 0.0):
        return True
    return count >= (MAX_PAIRS if narrow else MOST_PAIRS)


def is_told(found: Ratio, difference: float, floor: float) -> bool:
    """Whether it is known if a change is faster or slower by a `difference`, or by less than that.

    What is faster or slower is to have a figure as well: its interval is to be narrow.
    """
    if found.pairs < MIN_PAIRS:
        return False
    if 1 / (1 + difference) < found.low and found.high < 1 + difference:
        return True
    least = 1 + max(difference, floor) + (HASTE if found.pairs < MAX_PAIRS else 0.0)
    narrow = found.high - found.low <= WIDE * math.sqrt(max(1.0, found.speedup)) * found.speedup
    return narrow and (found.low > least or found.high < 1 / least)


def pairs_to_come(contest: Contest, floor: float) -> float:
    """How many more pairs may decide a contest: intervals shrink by the root of their number.

    Half as many again as it had, at least: it was expected to be decided before.
    """
    count, found = len(contest.pairs), contest.ratio
    if found is None:
        return float(MIN_PAIRS - count)
    half = math.log(found.high / found.low) / 2
    above = math.log(found.speedup / (1 + floor))
    below = math.log((1 + contest.worth) / found.speedup)
    wanted = count * (half / max(above, below, 0.01)) ** 2
    return min(max(count / 2, wanted - count), float(MOST_PAIRS))


def met_itself(contest: Contest, floor: float) -> bool:
    """Whether the control has told what noise there is: little, or as well as it is told."""
    count = len(contest.pairs)
    return count >= OF_CONTROL or (count >= MIN_PAIRS and floor <= SMALLEST_GAIN)


def beaten(contest: Contest, others: Sequence[Contest]) -> bool:
    """Whether another way to make the same change is known to be as good, or better.

    At once where the intervals lie apart; with enough pairs also where this one cannot be
    better by more than a few percent, so that the slices go to those still in the lead.
    """
    mine = contest.ratio
    if mine is None or not contest.race:
        return False
    for other in others:
        found = other.ratio
        if other is contest or other.race != contest.race or found is None or other.failure:
            continue
        if mine.high < found.low:
            return True
        settled = min(len(contest.pairs), len(other.pairs)) >= MIN_PAIRS
        if settled and mine.speedup <= found.speedup and mine.high < AS_GOOD * found.speedup:
            return True
    return False
