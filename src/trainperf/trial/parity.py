"""Whether a fix trains the same: the losses of two legs, update by update. Pure.

How far rounding alone drives two trainings apart was measured on scripts of Dense,
convolution with batch normalisation, and LSTM, with Adam and SGD, 400 updates each, on
a CPU: the same mathematics with the samples of each batch permuted, with all weights
moved by one unit in the last place, compiled by XLA, with the LSTM unrolled. The
largest relative distance of the losses up to an update was

    update                        5      20     50     100    200    400
    rounding                    1e-6   1e-6   1e-4    8e-3   4e-2     1
    other order of samples      5e-2   5e-2   1e-1    1e-1   2e-1   5e-1   (the smallest)
    learning rate off by 1 %    1e-4   4e-4   1e-3    4e-3   1e-2   2e-2   (the smallest)

so what a fix changes shows in the first updates or not at all, and what parts two
losses later grows step by step: from one update to the next never by more than 20
times. `FIRST`, `TENFOLD` and `JUMP` follow from this, with a margin of ten or more.

Where the order of samples may differ, losses of the same update are of other samples. Their means
agree, up to the noise of the batches and to the pace, which the order changes as well: a small
convolution with SGD had 48 % more loss in the mean of 120 updates, and was as good in the end. On
those scripts no other order was rejected, over 6 to 400 losses; a training whose weights stood
still was, from 50 to 120 updates on. Before the unchanged script has learnt something, losses
cannot tell the two apart.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from trainperf.model import Equivalence, Event

FIRST_UPDATES = 5
FIRST = 1e-4
"""Relative distance that rounding may make in the first updates. Float32 on a CPU makes
1e-6; TF32 and half precision round a hundred times coarser, but average out."""
TENFOLD = 25
"""Rounding may grow tenfold in so many updates; measured: tenfold in 15 to 50, from 1e-7."""
WORST = 2.0
"""No relative distance is larger: from here on rounding may have made any."""
JUMP = 100.0
FLOOR = 1e-6
"""A distance may be up to `JUMP` times the largest before it, or times this floor."""
WEIGHTS = 0.01
"""A sum over all weights moves less than a loss: tolerances are so many times smaller."""
BAND = 3.0
"""The unchanged script against itself is one draw: allow so many times its distance."""
NUMERICS = 0.03
"""Relative distance of each loss that other rounding makes in tens of updates."""
FEWEST = 6
"""Fewer losses than this say nothing about a mean."""
MEAN = 0.05
"""Relative distance of mean losses that passes, whatever the noise."""
ERRORS = 3.0
"""Standard errors that means may lie apart: one in 400 equal trainings does."""
LONGEST_MEMORY = 4.0
"""Losses of neighbouring updates resemble each other: the variance of their mean is up
to so many times larger. More would let a training that does not learn pass as noise."""
OWN_NOISE = 2.0
"""A candidate may be so many times as noisy as the unchanged script, no more: the
losses of a training that diverges must not excuse themselves by their own spread."""


@dataclass(frozen=True)
class Losses:
    """The losses of one process, by the number of weight updates, from 1.

    `kind` says what `values` are: "loss", or "weights" (sums of their absolute values) where no
    loss could be seen. `source` is where the losses were seen ("fit", "tape", "output"). `means`
    says of how many updates a value is the running mean, where it is one. `weights` are kept beside
    losses for a few early updates.
    """

    kind: str
    values: dict[int, float]
    source: str = ""
    means: dict[int, int] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)

    def of_kind(self, kind: str) -> dict[int, float]:
        """The values of a kind, by update."""
        if self.kind == kind:
            return self.values
        return self.weights if kind == "weights" else {}


def read_losses(events: Iterable[Event]) -> Losses | None:
    """Gather the losses of one process from its events; None if it wrote none."""
    values: dict[str, dict[int, float]] = {"loss": {}, "weights": {}}
    means: dict[int, int] = {}
    source = ""
    for event in events:
        if event["e"] != "losses":
            continue
        found = (float(value) for value in event["v"])  # "nan" and "inf" come as text
        values[event["kind"]].update(zip(event["u"], found, strict=True))
        if event["kind"] == "loss":
            source = source or event["of"]
            means |= {n: k for n, k in zip(event["u"], event["k"], strict=True) if k}
    if values["loss"]:
        return Losses("loss", values["loss"], source, means, values["weights"])
    if values["weights"]:
        return Losses("weights", values["weights"])
    return None


@dataclass(frozen=True)
class Band:
    """How far the unchanged script parts from itself.

    `reproducible` says whether it does so by rounding only, None where nothing could be
    compared. `relative` is the largest relative distance, `growth` the largest up to
    each compared update.
    """

    reproducible: bool | None
    relative: float
    growth: dict[int, float] = field(default_factory=dict)

    def along(self, updates: Sequence[int]) -> list[float]:
        """The largest relative distance up to each of the updates, which ascend."""
        known = list(self.growth)
        places = (bisect.bisect_right(known, update) for update in updates)
        return [self.growth[known[place - 1]] if place else 0.0 for place in places]

    @property
    def text(self) -> str:
        """How far that is where it is more than rounding, to stand behind a verdict."""
        apart = f"; the script differs from itself by {_percent(self.relative)}"
        return apart if self.reproducible is False else ""


@dataclass(frozen=True)
class Parity:
    """Whether a candidate trains the same, None where that could not be judged, in words."""

    ok: bool | None
    text: str


PRINTED = re.compile(
    r"""([A-Za-z_./-]*loss[A-Za-z_./-]*)["']?\s*[:=]?\s*(?:tensor\()?"""
    r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|nan|inf)\b",
    re.IGNORECASE,
)
"""A loss as scripts print it: its name, and its value."""
REPEATS = 0.01
"""Relative distance of two plain runs' last losses from which they tell nothing of a change."""
SURELY = 0.1
"""From this relative distance on last losses of a script that repeats itself are others."""


@dataclass(frozen=True)
class _Pairs:
    """Values of one kind that two processes showed at the same updates, both finite.

    `broken` says at which update the changed one's is no number any more, and the other is.
    """

    kind: str
    updates: tuple[int, ...]
    unchanged: tuple[float, ...]
    changed: tuple[float, ...]
    broken: Parity | None = None

    def distances(self) -> list[float]:
        """Relative distances; values near zero are measured against the usual size."""
        usual = 0.1 * statistics.median(map(abs, self.unchanged))
        return [
            abs(a - b) / max(abs(a), abs(b), usual) if a != b else 0.0
            for a, b in zip(self.unchanged, self.changed, strict=True)
        ]

    @property
    def noun(self) -> str:
        return "sums of weights" if self.kind == "weights" else "losses"

    def parted(self, at: int) -> Parity:
        """The verdict that the two trainings part at a place."""
        values = _two(self.unchanged[at], self.changed[at])
        return Parity(False, f"{self.noun} part at step {self.updates[at]}: {values}")

    def beyond_rounding(self, band: Band) -> int | None:
        """The place of the first pair that is further apart than rounding explains, or None."""
        scale = WEIGHTS if self.kind == "weights" else 1.0
        largest, last = 0.0, 0
        allowed = band.along(self.updates)
        for place, (update, far) in enumerate(zip(self.updates, self.distances(), strict=True)):
            sudden = JUMP * max(largest, FLOOR * scale) * _grown(update - last - 1)
            made = min(WORST, FIRST * _grown(update - FIRST_UPDATES))  # by rounding until then
            if far > max(min(scale * made, max(scale * FIRST, sudden)), BAND * allowed[place]):
                return place
            largest, last = max(largest, far), update
        return None


def _grown(updates: int) -> float:
    return math.pow(10.0, min(max(0, updates) / TENFOLD, 10.0))


def _pairs(kind: str, unchanged: Losses, changed: Losses) -> _Pairs | None:
    """Pair what both showed at the same updates; None if there is no such update."""
    first, second = unchanged.of_kind(kind), changed.of_kind(kind)
    common = sorted(first.keys() & second.keys())
    if not common:
        return None
    finite = tuple(n for n in common if math.isfinite(first[n]) and math.isfinite(second[n]))
    values = tuple(first[n] for n in finite), tuple(second[n] for n in finite)
    pairs = _Pairs(kind, finite, *values)
    for update in common:
        if math.isfinite(first[update]) and not math.isfinite(second[update]):
            numbers = f"{first[update]:.4g} against {second[update]}"
            text = f"{pairs.noun} part at step {update}: {numbers}"
            return replace(pairs, broken=Parity(False, text))
    return pairs


def control(unchanged: Losses | None, twin: Losses | None) -> Band:
    """Compare the unchanged script with itself."""
    unknown = Band(None, 0.0)
    if unchanged is None or twin is None:
        return unknown
    pairs = _pairs("loss", unchanged, twin) or _pairs("weights", unchanged, twin)
    if pairs is None or not pairs.updates:
        return unknown
    growth = dict(zip(pairs.updates, itertools.accumulate(pairs.distances(), max), strict=True))
    rounding = pairs.broken is None and pairs.beyond_rounding(unknown) is None
    return Band(rounding, growth[pairs.updates[-1]], growth)


def judge(
    equivalence: Equivalence, baseline: Losses | None, candidate: Losses | None, band: Band
) -> Parity:
    """Say whether a candidate's losses are those of the unchanged script.

    EXACT and ENVIRONMENT must be equal to rounding, NUMERICS close; where the script
    does not repeat itself (`band`), its own distance is allowed too. SEMANTICS is not
    judged by losses, as long as they are numbers.
    """
    if equivalence is Equivalence.SEMANTICS:
        pairs = baseline and candidate and _pairs("loss", baseline, candidate)
        unjudged = Parity(None, "changes the experiment; losses not compared")
        return (pairs.broken if pairs else None) or unjudged
    judged = Parity(None, "no loss could be seen")
    if baseline is None or candidate is None:
        return judged
    for kind in ("loss", "weights"):
        pairs = _pairs(kind, baseline, candidate)
        if pairs is None:
            continue
        judged = _judge_kind(equivalence, pairs, baseline, candidate, band)
        alike = kind == "weights" or baseline.source == candidate.source
        if judged.ok is True or (judged.ok is False and alike):
            return judged
        if judged.ok is False:  # the loss that a tape derived need not be the one returned
            judged = Parity(None, "losses seen in different places; not compared")
    return judged


def _judge_kind(
    equivalence: Equivalence, pairs: _Pairs, baseline: Losses, candidate: Losses, band: Band
) -> Parity:
    if pairs.broken is not None:
        return pairs.broken
    if not pairs.updates:
        return Parity(None, "no finite loss could be compared")
    distances, count = pairs.distances(), len(pairs.updates)
    far = max(distances)
    within = f"{pairs.noun} within {_percent(far)} ({count} compared)"
    if equivalence is not Equivalence.NUMERICS:
        parted = pairs.beyond_rounding(band)
        if parted is not None and band.reproducible is not False:
            return pairs.parted(parted)
        if parted is None and band.reproducible is False:
            return Parity(True, within + band.text)
        if parted is None and far > FIRST:
            return Parity(True, f"{within}, as far as rounding grows")
        if parted is None:
            return Parity(True, f"{count} {pairs.noun} equal to rounding")
    itself = band.along(pairs.updates)
    if all(a <= max(NUMERICS, BAND * b) for a, b in zip(distances, itself, strict=True)):
        return Parity(True, within + band.text)
    if pairs.kind == "weights":
        return pairs.parted(count - 1)
    return _by_means(pairs, baseline, candidate, band)


def _by_means(pairs: _Pairs, baseline: Losses, candidate: Losses, band: Band) -> Parity:
    """Compare mean losses: order of samples or random streams may differ."""
    count = len(pairs.updates)
    if count < FEWEST:
        return Parity(None, f"{count} losses are too few to compare another order of samples")
    unchanged, changed = (each_update(one, pairs.updates) for one in (baseline, candidate))
    before, after = statistics.fmean(unchanged), statistics.fmean(changed)
    size = statistics.fmean(abs(value) for value in unchanged)
    share = _percent(abs(after - before) / size) if size else f"{abs(after - before):.3g}"
    # the second half too, by which a training that does not learn lies behind
    if not all(_alike(unchanged, changed, since) for since in (0, count // 2)):
        text = f"mean losses differ by {share} ({count} compared): {_two(before, after)}"
        return Parity(False, text)
    words = f"mean losses within {share} ({count} compared)"
    if abs(after - before) > MEAN * size:
        words += ", as another order of samples may give"
    return Parity(True, words + band.text)


def each_update(losses: Losses, updates: Sequence[int]) -> list[float]:
    """The mean losses since the update before: running means taken apart.

    Exact where all batches are of one size; the odd last batch of an epoch is not.
    """
    found, values = list[float](), losses.values
    at, behind = 0, 0
    for update in updates:
        value, count = values[update], losses.means.get(update, 0)
        if behind and count - behind == update - at > 0:
            value = (count * value - behind * values[at]) / (count - behind)
        found.append(value)
        at, behind = update, count
    return found


def _alike(unchanged: list[float], changed: list[float], since: int) -> bool:
    """Compare the means since one of the losses, with those of a training that learns
    at the pace of `unchanged`, at half or at twice of it, or anything between."""
    end = statistics.fmean(unchanged[-max(1, len(unchanged) // 4) :])
    paces = (
        unchanged,
        [unchanged[n // 2] for n in range(len(unchanged))],
        [*unchanged[::2], *[end] * (len(unchanged) // 2)],
    )
    means = [statistics.fmean(pace[since:]) for pace in paces]
    size = statistics.fmean(abs(loss) for loss in unchanged)
    slack = MEAN * size + ERRORS * _standard_error(unchanged[since:], changed[since:])
    return min(means) - slack <= statistics.fmean(changed[since:]) <= max(means) + slack


def _standard_error(unchanged: list[float], changed: list[float]) -> float:
    """The standard error of the difference of two means of losses of the same updates.

    From the differences, which hold no trend if both learn alike, but no larger than
    what the noise of the unchanged script explains.
    """
    count = len(unchanged)
    apart = [b - a for a, b in zip(unchanged, changed, strict=True)]
    middle = statistics.fmean(apart)
    off = [value - middle for value in apart]
    memory, total = 1.0, sum(value * value for value in off)
    if total:  # correlation of neighbours inflates the variance of a mean
        lag = sum(a * b for a, b in itertools.pairwise(off)) / total
        memory = min(LONGEST_MEMORY, max(1.0, (1 + lag) / max(1e-9, 1 - lag)))
    paired = statistics.stdev(apart) * math.sqrt(memory / count)
    steps = [b - a for a, b in itertools.pairwise(unchanged)]
    own = statistics.stdev(steps)  # sqrt(2) of the noise, without the trend
    return min(paired, OWN_NOISE * own * math.sqrt(LONGEST_MEMORY / count))


def judge_printed(unchanged: tuple[str, str], changed: tuple[str, str]) -> Parity:
    """Say whether plain runs end with the same losses, by the last that they print of each name.

    `unchanged` and `changed` are what two runs of each printed. Plain runs are not seeded, so that
    the unchanged script's must repeat each other.
    """
    runs = [dict(PRINTED.findall(text)) for text in (*unchanged, *changed)]
    names = [name for name in runs[0] if all(name in run for run in runs)]
    if not names:
        return Parity(None, "the script prints no loss by which plain runs could be compared")
    farthest = 0.0
    for name in names:
        first, again, *others = (run[name] for run in runs)
        itself = _apart(first, again)
        if itself > REPEATS:
            both = " and ".join(f"{float(text):.6g}" for text in (first, again))
            return Parity(None, f"its runs as it is end with another {name}: {both}")
        value = max(others, key=lambda other: _apart(first, other))
        far = _apart(first, value)
        if far > max(NUMERICS, BAND * itself):
            text = f"the last {name} printed is {float(value):.6g}, not {float(first):.6g}"
            return Parity(False if far > SURELY else None, text)
        farthest = max(farthest, far)
    within = f"within {_percent(farthest)}" if farthest else "the same"
    return Parity(True, f"the last {' and '.join(names[:3])} that it prints is {within}")


def _apart(first: str, other: str) -> float:
    """The relative distance of two printed numbers, less what their last digit is rounded by."""
    one, two = float(first), float(other)
    if first.lower() == other.lower():
        return 0.0
    if not (math.isfinite(one) and math.isfinite(two)):
        return math.inf
    digits = max(len(text.lower().partition("e")[0].partition(".")[2]) for text in (first, other))
    rounded = 10.0**-digits if "e" not in (first + other).lower() else 0.0
    return max(0.0, abs(one - two) - rounded) / (max(abs(one), abs(two)) or 1.0)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _two(before: float, after: float) -> str:
    """Two numbers with as many digits as it takes to tell them apart."""
    texts = [(f"{before:.{digits}g}", f"{after:.{digits}g}") for digits in (4, 6, 9)]
    return " against ".join(next((pair for pair in texts if pair[0] != pair[1]), texts[-1]))
