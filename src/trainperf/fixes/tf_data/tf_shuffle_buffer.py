"""A shuffle buffer that takes long to fill."""

from __future__ import annotations

from itertools import pairwise

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import label
from trainperf.fixes.common.words import SMALLEST_GAIN, at, ms, worth
from trainperf.fixes.tf_data.tf_cache import Cache
from trainperf.fixes.tf_data.tf_vectorised_map import move_ahead
from trainperf.model import BetweenEpochs, Equivalence, Evidence, Finding, Stage
from trainperf.rewrite import Script

LONG_FILL = 20
"""Steps a fill must cost to be spoken of: fewer drown in what an epoch's start costs anyway."""


class ShuffleBuffer(Fix):
    """Shuffle what is cheap to hold: file names or records, not decoded samples.

    ## Why it is slow
    `shuffle(k)` reads k elements before it hands out the first, in every epoch.
    Where each of them is a decoded image, the model waits for k decodes, and memory
    holds k images.

    ## What changes
    `.map(load).shuffle(k)` becomes `.shuffle(k).map(load)`: the buffer holds names or
    records. The order of samples stays the same, for the same seed.
    Where another stage stands before the shuffle, a smaller buffer fills sooner, but
    mixes less.

    ## When not to
    When the data lies sorted in a few files and a small buffer would not mix it.
    When the decoded samples are cached before the shuffle: then filling is cheap.
    """

    category = "input"
    equivalence = Equivalence.SEMANTICS
    between_epochs = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a buffer whose filling costs many steps in every epoch."""
        shuffle, before, fill = _slowest(evidence.stages)
        real, steps = evidence.times.real, evidence.loop.epoch_steps
        if steps is None:
            raise NotMeasured("the number of steps in an epoch is not known")
        between = evidence.between_epochs
        if between is not None and between.restart_s is not None:
            fill = min(fill, between.restart_s)
        bound = 1 + fill / (steps * real)
        if fill < LONG_FILL * real or not worth(evidence, bound) or _cacheable(evidence):
            return None
        return self._finding(evidence, shuffle, before, fill)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it on any buffer whose filling is a twentieth of an epoch."""
        shuffle, before, fill = _slowest(evidence.stages)
        real, steps = evidence.times.real, evidence.loop.epoch_steps
        between = evidence.between_epochs
        if steps is None or between is None or between.restart_s is None:
            return None
        fill = min(fill, between.restart_s)
        if fill <= SMALLEST_GAIN * steps * real or _cacheable(evidence):
            return None
        return self._finding(evidence, shuffle, before, fill)

    def _finding(self, evidence: Evidence, shuffle: Stage, before: Stage, fill: float) -> Finding:
        real, steps = evidence.times.real, evidence.loop.epoch_steps or 1
        passed = _passed(evidence.stages, shuffle)
        movable = bool(passed) and all(each.by_user and each.where for each in passed)
        random = any(each.stateful_random for each in passed)
        stages = (shuffle, *passed) if movable else (shuffle,)
        sites = tuple(each.where for each in stages if each.where is not None)
        buffer = shuffle.arguments.get("buffer_size")
        of = f" of {buffer} elements" if isinstance(buffer, int) and buffer > 0 else ""
        return self.finding(
            title="The shuffle buffer takes long to fill",
            text=(
                f"`shuffle` ({at(shuffle.where)}) fills a buffer{of} for {ms(fill)} before its "
                f"first element: as long as {fill / real:.0f} steps, and an epoch has {steps}. "
                f"Each element goes through {label(before)} first."
            ),
            bound=1 + fill / (steps * real),
            bound_basis="filling costs nothing, once per epoch",
            where=sites,
            advice=(
                "Put `shuffle` before " + ("this `map`." if len(passed) == 1 else "these `map`s.")
                if movable
                else "Shuffle file names or records before they are read; make this buffer smaller."
            ),
            snippet=(
                "dataset = files.shuffle(number_of_files)  # names are cheap to hold\n"
                "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)"
            ),
            equivalence=(Equivalence.NUMERICS if random else Equivalence.EXACT)
            if movable
            else Equivalence.SEMANTICS,
            rewritable=movable and all(site.exact for site in sites),
            data=_epoch(evidence.between_epochs, steps, real),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Move the shuffle ahead of the maps before it."""
        move_ahead(script, finding.where)


def _epoch(between: BetweenEpochs | None, steps: int, real: float) -> dict[str, object]:
    """The epoch that trials have to hold whole: a buffer is filled once in each."""
    if between is None or between.restart_s is None:
        return {}
    whole = steps * real + between.seconds
    besides = max(0.0, between.seconds - between.restart_s)
    return {"epoch": {"steps": steps, "seconds": whole, "pause_s": besides}}


def _cacheable(evidence: Evidence) -> bool:
    """Whether a cache ahead of the shuffle is proposed: filling is cheap behind it, and a
    shuffle moved ahead of it would be frozen."""
    try:
        return Cache().detect(evidence) is not None
    except NotMeasured:
        return False


def _passed(stages: tuple[Stage, ...], shuffle: Stage) -> list[Stage]:
    """The maps right before a shuffle, the nearest first, with what prefetches between them."""
    passed: list[Stage] = []
    for each in reversed(stages[: stages.index(shuffle)]):
        if each.op not in ("map", "prefetch"):
            break
        passed.append(each)
    while passed and passed[-1].op != "map":
        passed.pop()
    return passed


def _slowest(stages: tuple[Stage, ...]) -> tuple[Stage, Stage, float]:
    """The shuffle that takes longest to fill, the stage before it, and the seconds."""
    fills = [
        (shuffle, before, shuffle.first_s - before.first_s)
        for before, shuffle in pairwise(stages)
        if shuffle.op == "shuffle"
        and shuffle.by_user
        and shuffle.first_s is not None
        and before.first_s is not None
    ]
    if not fills:
        raise NotMeasured("the time to the first element of a shuffle was not measured")
    return max(fills, key=lambda fill: fill[2])
