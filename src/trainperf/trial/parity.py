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
times. `tolerance` and `JUMP` follow from this, with a margin of ten or more.

Where the order of samples may differ, losses of the same update are of other samples. Their means
agree, up to the noise of the batches and to the pace, which the order changes as well: a small
convolution with SGD, given its samples in another order, had 48 % more loss in the mean of 120
updates, and was as good in the end. On those scripts no other order was rejected, over 6 to 400
losses; a training whose weights stood still was, from 50 to 120 updates on. Before the unchanged
script has learnt something, losses cannot tell the two apart.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

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

    `kind` says what `values` are: "loss", or "weights" (sums of the absolute values of
    the trainable weights) where no loss could be seen. `source` is where the losses
    were seen ("fit", "train_on_batch", "tape", "output"). `means` says of how many
    updates a value is the running mean, where it is one. `weights` are kept beside
    losses for a few early updates.
    """

    kind: str
    values: dict[int, float]
    source: str = ""
    means: dict[int, int] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)


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

    def along(self, updates: tuple[int, ...]) -> list[float]:
        """The largest relative distance up to each of the updates, which ascend."""
        known = list(self.growth)
        places = (bisect.bisect_right(known, update) for update in updates)
        return [self.growth[known[place - 1]] if place else 0.0 for place in places]


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
    """Values of two processes at the same updates, both finite."""

    kind: str
    updates: tuple[int, ...]
    unchanged: tuple[float, ...]
    changed: tuple[float, ...]

    def distances(self) -> list[float]:
        """Relative distances; values near zero are measured against the usual size."""
        usual = 0.1 * statistics.median(abs(value) for value in self.unchanged)
        return [
            abs(a - b) / max(abs(a), abs(b), usual) if a != b else 0.0
            for a, b in zip(self.unchanged, self.changed, strict=True)
        ]


def tolerance(update: int) -> float:
    """The relative distance that rounding may have made up to an update."""
    return min(WORST, FIRST * _grown(update - FIRST_UPDATES))


def _grown(updates: int) -> float:
    return math.pow(10.0, min(max(0, updates) / TENFOLD, 10.0))


def control(unchanged: Losses | None, twin: Losses | None) -> Band:
    """Compare the unchanged script with itself."""
    if unchanged is None or twin is None:
        return Band(None, 0.0)
    pairs = _pairs("loss", unchanged, twin) or _pairs("weights", unchanged, twin)
    if pairs is None or not pairs.updates:
        return Band(None, 0.0)
    growth: dict[int, float] = {}
    largest = 0.0
    for update, far in zip(pairs.updates, pairs.distances(), strict=True):
        largest = growth[update] = max(largest, far)
    finite = _not_finite(pairs.kind, unchanged, twin) is None
    return Band(finite and _parts(pairs, Band(None, 0.0)) is None, largest, growth)


def judge(
    equivalence: Equivalence, baseline: Losses | None, candidate: Losses | None, band: Band
) -> Parity:
    """Say whether a candidate's losses are those of the unchanged script.

    EXACT and ENVIRONMENT must be equal to rounding, NUMERICS close; where the script
    does not repeat itself (`band`), its own distance is allowed too. SEMANTICS is not
    judged by losses, as long as they are numbers.
    """
    if equivalence is Equivalence.SEMANTICS:
        broken = baseline and candidate and _not_finite("loss", baseline, candidate)
        return broken or Parity(None, "changes the experiment; losses not compared")
    if baseline is None or candidate is None:
        return Parity(None, "no loss could be seen")
    judged = Parity(None, "no loss could be seen")
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
            told = far > SURELY
            text = f"the last {name} printed is {float(value):.6g}, not {float(first):.6g}"
            return Parity(False if told else None, text)
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


def _judge_kind(
    equivalence: Equivalence, pairs: _Pairs, baseline: Losses, candidate: Losses, band: Band
) -> Parity:
    broken = _not_finite(pairs.kind, baseline, candidate)
    if broken is not None:
        return broken
    if not pairs.updates:
        return Parity(None, "no finite loss could be compared")
    distances = pairs.distances()
    far = max(distances)
    many = f"{len(pairs.updates)} compared"
    within = f"{_noun(pairs.kind)} within {_percent(far)} ({many})"
    parted = _parts(pairs, band)
    if equivalence is not Equivalence.NUMERICS and parted is None:
        if band.reproducible is False:
            return Parity(True, within + _itself(band))
        if far > FIRST:
            return Parity(True, f"{within}, as far as rounding grows")
        return Parity(True, f"{len(pairs.updates)} {_noun(pairs.kind)} equal to rounding")
    if equivalence is not Equivalence.NUMERICS and band.reproducible is not False:
        return _parted(pairs, parted)
    itself = band.along(pairs.updates)
    if all(a <= max(NUMERICS, BAND * b) for a, b in zip(distances, itself, strict=True)):
        return Parity(True, within + _itself(band))
    if pairs.kind == "weights":
        return _parted(pairs, len(pairs.updates) - 1)
    return _by_means(pairs, baseline, candidate, band)


def _by_means(pairs: _Pairs, baseline: Losses, candidate: Losses, band: Band) -> Parity:
    """Compare mean losses: order of samples or random streams may differ."""
    many = len(pairs.updates)
    if many < FEWEST:
        return Parity(None, f"{many} losses are too few to compare another order of samples")
    unchanged = of_each_update(baseline.values, baseline.means, pairs.updates)
    changed = of_each_update(candidate.values, candidate.means, pairs.updates)
    before, after = statistics.fmean(unchanged), statistics.fmean(changed)
    size = statistics.fmean(abs(value) for value in unchanged)
    share = _percent(abs(after - before) / size) if size else f"{abs(after - before):.3g}"
    if alike(unchanged, changed):
        words = f"mean losses within {share} ({many} compared)"
        if abs(after - before) > MEAN * size:
            words += ", as another order of samples may give"
        return Parity(True, words + _itself(band))
    text = f"mean losses differ by {share} ({many} compared): {_two(before, after)}"
    return Parity(False, text)


def _itself(band: Band) -> str:
    if band.reproducible is not False:
        return ""
    return f"; the script differs from itself by {_percent(band.relative)}"


def _parts(pairs: _Pairs, band: Band) -> int | None:
    """Index of the first pair that is further apart than rounding explains, or None."""
    scale = WEIGHTS if pairs.kind == "weights" else 1.0
    largest, last = 0.0, 0
    itself = band.along(pairs.updates)
    for index, (update, far) in enumerate(zip(pairs.updates, pairs.distances(), strict=True)):
        sudden = JUMP * max(largest, FLOOR * scale) * _grown(update - last - 1)
        allowed = min(scale * tolerance(update), max(scale * FIRST, sudden))
        if far > max(allowed, BAND * itself[index]):
            return index
        largest, last = max(largest, far), update
    return None


def _parted(pairs: _Pairs, index: int | None) -> Parity:
    at = index or 0
    values = _two(pairs.unchanged[at], pairs.changed[at])
    return Parity(False, f"{_noun(pairs.kind)} part at step {pairs.updates[at]}: {values}")


def _pairs(kind: str, unchanged: Losses, changed: Losses) -> _Pairs | None:
    """Pair what both showed at the same updates; None if there is no such update."""
    one, other = _of_kind(unchanged, kind), _of_kind(changed, kind)
    common = sorted(one.keys() & other.keys())
    if not common:
        return None
    both = tuple(n for n in common if math.isfinite(one[n]) and math.isfinite(other[n]))
    return _Pairs(kind, both, tuple(one[n] for n in both), tuple(other[n] for n in both))


def _of_kind(losses: Losses, kind: str) -> dict[int, float]:
    if losses.kind == kind:
        return losses.values
    return losses.weights if kind == "weights" else {}


def _not_finite(kind: str, unchanged: Losses, changed: Losses) -> Parity | None:
    one, other = _of_kind(unchanged, kind), _of_kind(changed, kind)
    for update in sorted(one.keys() & other.keys()):
        if math.isfinite(one[update]) and not math.isfinite(other[update]):
            text = f"{_noun(kind)} part at step {update}: {one[update]:.4g} against {other[update]}"
            return Parity(False, text)
    return None


def _noun(kind: str) -> str:
    return "sums of weights" if kind == "weights" else "losses"


def _percent(share: float) -> str:
    if share >= 0.1:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.2g} %"


def _two(before: float, after: float) -> str:
    """Two numbers with as many digits as it takes to tell them apart."""
    for digits in (4, 6, 9):
        words = f"{before:.{digits}g}", f"{after:.{digits}g}"
        if words[0] != words[1]:
            break
    return f"{words[0]} against {words[1]}"


def alike(unchanged: list[float], changed: list[float]) -> bool:
    """Whether losses of the same updates are what the same mathematics could have given.

    In the mean of all of them, and of their second half, by which a training that does
    not learn lies behind. Needs six losses or more.
    """
    return all(_alike(unchanged, changed, since) for since in (0, len(unchanged) // 2))


def of_each_update(
    values: dict[int, float], means: dict[int, int], updates: tuple[int, ...]
) -> list[float]:
    """The mean losses since the update before: running means taken apart.

    `means` says of how many updates a value is the running mean. Exact where all
    batches are of one size; the odd last batch of an epoch is not.
    """
    found = []
    at, behind = 0, 0
    for update in updates:
        value = values[update]
        count = means.get(update, 0)
        if behind and count - behind == update - at > 0:
            found.append((count * value - behind * values[at]) / (count - behind))
        else:
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
    many = len(unchanged)
    apart = [b - a for a, b in zip(unchanged, changed, strict=True)]
    memory = min(LONGEST_MEMORY, max(1.0, _memory(apart)))
    paired = statistics.stdev(apart) * math.sqrt(memory / many)
    steps = [b - a for a, b in itertools.pairwise(unchanged)]
    own = statistics.stdev(steps)  # sqrt(2) of the noise, without the trend
    return min(paired, OWN_NOISE * own * math.sqrt(LONGEST_MEMORY / many))


def _memory(values: list[float]) -> float:
    """By how much correlation of neighbours inflates the variance of a mean."""
    middle = statistics.fmean(values)
    off = [value - middle for value in values]
    total = sum(one * one for one in off)
    if total == 0.0:
        return 1.0
    lag = sum(a * b for a, b in itertools.pairwise(off)) / total
    return (1 + lag) / max(1e-9, 1 - lag)
