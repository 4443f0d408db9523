"""Legs that live together take turns: the script as it is before and after each change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from trainperf.model import Ratio
from trainperf.model.run import Epoch
from trainperf.trial.epochs import epochs_of_slice, in_turns, with_pause
from trainperf.trial.legs.leg import Leg, LegFailed
from trainperf.trial.ratio import FEWEST, Pair, ratio
from trainperf.trial.slices import Slice

SLICE_S = 0.3
"""A slice is about so long: short against a neighbour's bursts (seconds), long against
what stopping and waking costs (a few milliseconds)."""
SETTLE_S = 0.05
"""So long caches and thread pools are cold after a leg was woken, and at least one step:
steps of 2 ms read 12 % too long in slices that dropped one step only."""
LEAST_STEPS = 2
SLOW_STEP_S = 0.5
"""From this step time on a slice is a single step."""
MIN_PAIRS = 6
"""Fewer pairs decide only what is far from 1."""
FAR = 0.25
"""A gain or a loss beyond this, with its whole interval, may be decided by fewer pairs."""
MAX_PAIRS = 24
MOST_PAIRS = 72
"""So many pairs where fewer leave open whether there is a gain, or how large it is."""
SMALLEST_GAIN = 0.02
"""A gain below this is not worth an edit, however sure it is."""
LITTLE = 0.1
"""A gain that cannot be above this is looked at more closely when nothing else is left to try."""
HARDLY = 0.05
"""A gain that cannot be above this need not be told from none."""
WIDE = 0.12
NARROW = 0.06
"""An interval narrower than this share of the speed-up need not become narrower. That of a
large gain may be wider, by the root of the speed-up: nobody decides by its last percent."""
NARROW_ENOUGH = 0.12
AS_GOOD = 1.03
"""Of two ways to make a change, one that is at most so much better is not looked for."""
CLEAR = 0.02
"""An interval that clears its threshold by so much is decided."""
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


@dataclass
class Contest:
    """One changed leg against the unchanged one: its pairs, and whether more are needed.

    `race` names what it runs against others for: several values of one fix. Where the loop of
    its `leg` ended by itself another goes on, and `first` is the one whose training is told of.
    `difference` is that of its candidate.
    """

    leg: Leg
    pairs: list[Pair] = field(default_factory=list)
    failure: str = ""
    decided: bool = False
    race: str = ""
    difference: float | None = None
    first: Leg = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.leg

    def goes_on_with(self, leg: Leg) -> None:
        """Take further turns with another leg of the same run."""
        self.leg, self.failure = leg, ""

    @property
    def ratio(self) -> Ratio | None:
        """The speed-up until now; None while there are too few pairs."""
        return ratio(self.pairs) if len(self.pairs) >= FEWEST else None


class Turns:
    """Lets the legs of a trial run in turn until every contest is decided.

    `step_s` is what a step of the unchanged script takes, in seconds. `settled` is
    told the contest and says whether it needs more pairs; `asked` says that the time is
    over or the user wants an end. With an `epoch` each slice holds whole ones.
    """

    def __init__(
        self,
        base: Leg,
        contests: Sequence[Contest],
        step_s: float,
        asked: Asked,
        settled: Callable[[Contest], bool],
        epoch: Epoch | None = None,
    ) -> None:
        self.base = base
        self.contests = contests
        self.base_slices: list[Slice] = []
        self._asked = asked
        self._settled = settled
        self._epoch = epoch
        self._first_s = step_s
        self._step_s: dict[int, float] = {}  # of a turn of each leg's loop

    def rounds(self) -> Iterator[int]:
        """Run round after round, each contest once; yield the number of each.

        Raises `LegFailed` if the unchanged script's leg cannot go on.
        """
        number = 0
        before: Slice | None = None
        while open_ := [one for one in self.contests if not one.decided]:
            # Back and forth, so that none is always the first after a change of mood.
            for contest in open_ if number % 2 == 0 else reversed(open_):
                before = before or self._base_slice()
                if before is None:
                    return
                changed = self._changed_slice(contest)
                if changed is None:
                    if not contest.failure:
                        return
                    before = None  # a leg that hangs may have taken long
                    continue
                after = self._base_slice()
                if after is None:
                    return
                contest.pairs.append(Pair(changed.rate, before.rate, after.rate, changed.steps))
                before = after
            number += 1
            for contest in open_:
                if contest.failure or self._settled(contest):
                    contest.decided = True
            yield number

    def _base_slice(self) -> Slice | None:
        piece = self._slice(self.base)
        if piece is not None:
            self.base_slices.append(piece)
        return piece

    def _changed_slice(self, contest: Contest) -> Slice | None:
        try:
            return self._slice(contest.leg)
        except LegFailed as failed:
            contest.failure = str(failed)
            contest.leg.end()  # what hangs must not run beside the others
            return None

    def _slice(self, leg: Leg) -> Slice | None:
        if self._asked():
            return None
        step_s = self._step_s.get(id(leg)) or self._unchanged_s() * leg.work_per_step
        for _ in range(SHORT_TRIES):
            piece, took_s = take(leg, step_s, self.base.slowest_s, self._asked, self._epoch)
            if piece is None:
                return None
            if not piece.retries:
                self._step_s[id(leg)] = took_s
                return piece
        leg.failure, leg.short_of_memory = SHORT, True
        raise LegFailed(SHORT)

    def _unchanged_s(self) -> float:
        """Seconds for a step's work of the unchanged script."""
        turn_s = self._step_s.get(id(self.base))
        return self._first_s if turn_s is None else turn_s / self.base.work_per_step


def take(
    leg: Leg, step_s: float, slowest_s: float, asked: Asked, epoch: Epoch | None = None
) -> tuple[Slice | None, float]:
    """Let a leg run one slice; return it with what a step takes, for the next one's size.

    `step_s` is what a step took before, `slowest_s` the longest slice that is known to
    be none that hangs. A change may make steps much shorter: slices grow with it, but
    not at once. With an `epoch` the slice holds whole ones, and what passes between them
    beside the start of the input, which a leg leaves out, is added. Raises `LegFailed`.
    """
    steps = slice_steps(step_s, leg.waits_every)
    turns = epoch
    if epoch is not None:
        turns = in_turns(epoch, leg.work_per_step)
        steps = turns.steps * epochs_of_slice(turns, step_s, SLICE_S)
    settle = settle_steps(step_s, leg.settles or epoch is not None)
    limit = max(HANG_S, HANG_TIMES * max(SLICE_S, step_s * (steps + 1), slowest_s))
    for more in range(ALIGNMENTS):
        piece = leg.run_slice(steps, settle + more, limit, asked)
        if piece is None:
            return None, step_s
        found = piece if turns is None else with_pause(piece, turns)
        if isinstance(found, Slice) and epoch is not None and not epoch.written:
            found = replace(found, work=float((found.epochs or 0) * epoch.steps))
        if isinstance(found, Slice):
            return found, max(found.seconds / found.steps, step_s / FASTEST)
    raise LegFailed(found)


def slice_steps(step_s: float, every: int = 1) -> int:
    """How many steps make a slice, where one takes `step_s` seconds: a multiple of `every`."""
    least = 1 if step_s >= SLOW_STEP_S else LEAST_STEPS
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


def enough(contest: Contest, floor: float) -> bool:
    """Whether more pairs would not change what is said of a contest.

    `floor` is the gain that may be noise, as a share; it shrinks as the control goes on,
    so that nothing is given up early because of it. A gap is decided by its interval, not by
    a number of pairs: a large one takes few.
    """
    count = len(contest.pairs)
    found = contest.ratio
    if found is None:
        return False
    if contest.difference is not None:
        return is_told(found, contest.difference, floor)
    if found.high < 1 + SMALLEST_GAIN - (0.0 if count >= MIN_PAIRS else FAR):
        return True  # no gain worth an edit, whatever comes
    width = (found.high - found.low) / found.speedup
    narrow = min(NARROW_ENOUGH, NARROW * math.sqrt(max(1.0, found.speedup)))
    least = 1 + floor + (CLEAR if count >= MIN_PAIRS else FAR)
    if width <= narrow and found.low > least:
        return True
    if count < MAX_PAIRS:
        return False
    known = not found.low <= 1 + floor <= found.high or found.high < 1 + HARDLY
    return (known and width <= WIDE) or count >= MOST_PAIRS


def is_told(found: Ratio, difference: float, floor: float) -> bool:
    """Whether it is known if a change is faster or slower by a `difference`, or by less than that.

    What is faster or slower is to have a figure as well: its interval is to be narrow.
    """
    if found.pairs < MIN_PAIRS:
        return False
    if 1 / (1 + difference) < found.low and found.high < 1 + difference:
        return True
    least = 1 + max(difference, floor) + (CLEAR if found.pairs < MAX_PAIRS else 0.0)
    width = (found.high - found.low) / found.speedup
    narrow = min(NARROW_ENOUGH, NARROW * math.sqrt(max(1.0, found.speedup)))
    return (found.low > least or found.high < 1 / least) and width <= narrow


def had_its_pairs(contest: Contest, _floor: float) -> bool:
    """Whether it had as many pairs as all get before others have their turn."""
    return len(contest.pairs) >= MAX_PAIRS


def can_wait(contest: Contest, floor: float) -> bool:
    """Whether more pairs would teach less than the first ones of another contest.

    It is surely far above what is worth an edit, surely not far above 1, or had `MAX_PAIRS`.
    """
    count, found = len(contest.pairs), contest.ratio
    if found is None or count < MIN_PAIRS:
        return False
    if found.low > 1 + floor + FAR or had_its_pairs(contest, floor):
        return True
    return count >= 2 * MIN_PAIRS and found.high < 1 + LITTLE


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
