"""The same expensive work done again in every epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import GIB, SITE, machine, stage
from trainperf.fixes.common.pipeline import (
    REAL_SHARE,
    input_at_most,
    known,
    label,
    opening,
    share,
    upper,
)
from trainperf.fixes.common.words import SMALLEST_GAIN, ms, worth
from trainperf.fixes.tf_data._input_cases import LOAD, chain, fed, starved
from trainperf.model import BetweenEpochs, Equivalence, Evidence, Finding, Loop, Stage, is_taken
from trainperf.model.words import size

if TYPE_CHECKING:
    from trainperf.rewrite import Script

MEMORY_SHARE = 0.5
"""The share of the available memory a cache may take: the other half is for the rest."""

LEAST_FILL = 0.10
"""The share of an epoch from which what a shuffle behind the cache takes to fill counts."""

SOURCES = {"from_tensors", "from_tensor_slices", "range", "list_files", "concatenate", "zip"}
READERS = {"tfrecord", "textline", "fixedlengthrecord", "csv"}
WORK = {"map", "flat_map", "interleave", "filter", "take", "skip", "enumerate", "prefetch"}
BATCHES = {"batch", "padded_batch", "ragged_batch", "unbatch", "rebatch", "window"}
WORKS = {"map", "flat_map", "interleave"}
DETERMINISTIC = {name.replace("_", "") for name in SOURCES | READERS | WORK | BATCHES}
"""Stages with the same elements in every epoch, if their function gives the same. Not listed, so
a cache never stands behind it: generators, `repeat`, and what draws random numbers."""

_FITS: dict[str, Any] = {
    "function": LOAD,
    "elements_per_step": 32.0,
    "element_bytes": 600_000,
    "cardinality": 10_000,
}


@dataclass(frozen=True)
class Place:
    """Where a cache can stand, and whether a shuffle stands before it."""

    stage: Stage
    shuffle: Stage | None
    reshuffled: bool


class Cache(Fix):
    """Keep the result of expensive work in memory after the first epoch.

    ## Why it is slow
    The pipeline reads and decodes the same files in every epoch, with the same result.

    ## What changes
    `.cache()` is put after the last expensive stage that gives the same result each time,
    ahead of shuffling and random augmentation. Later epochs read memory.
    Where the dataset is shuffled ahead of that stage, a second `.shuffle` follows the
    cache, which would freeze the order otherwise.

    ## When not to
    When the decoded data does not fit in memory beside the rest; `.cache(filename)` uses a disk.
    When the same code also builds other datasets: each is cached.
    When a function draws random numbers in a way tf.data cannot see.
    When an epoch is left before its end: the cache is only kept once it is complete.
    """

    category = "input"
    usual = 1.6
    equivalence = Equivalence.EXACT
    warm_up_epochs = 1  # the first one fills it

    silent = [
        fed(*chain(stage("from_tensor_slices", 0.0), stage("map", 0.07, **_FITS))),
        # cached already
        starved(*chain(stage("map", 0.09, **_FITS), stage("cache", 0.0), stage("batch", 0.01))),
        # one epoch only
        starved(
            *chain(stage("map", 0.09, **_FITS)),
            loop=Loop("fit", where=SITE, batch_size=32, epochs=1, epoch_steps=300),
        ),
        # too large
        starved(*chain(stage("map", 0.09, **_FITS)), machine=machine(available=8 * GIB)),
        # size not known
        starved(
            *chain(stage("map", 0.09, elements_per_step=32.0, cardinality=10_000)),
        ),
        # random work, Python's work, a generator, an endless dataset
        starved(*chain(stage("map", 0.09, stateful_random=True, **_FITS))),
        starved(*chain(stage("map", 0.09, python=True, **_FITS))),
        starved(*chain(stage("from_generator", 0.09, **_FITS), stage("batch", 0.01, **_FITS))),
        starved(*chain(stage("repeat", 0.0), stage("map", 0.09, **_FITS))),
        # the work that costs comes after the random stage
        starved(
            *chain(
                stage("from_tensor_slices", 0.001, **_FITS),
                stage("map", 0.04, stateful_random=True),
                stage("map", 0.05, **_FITS),
            )
        ),
        starved(stage("map", None, **_FITS)),
        # a prefetch that comes out dearest makes nothing itself, and belongs behind a cache
        starved(*chain(stage("map", 0.001, **_FITS), stage("prefetch", 0.09, **_FITS))),
    ]
    fires = [
        starved(*chain(stage("from_tensor_slices", 0.0), stage("map", 0.09, **_FITS))),
        # ahead of augmentation and batching
        starved(
            *chain(
                stage("map", 0.06, **_FITS),
                stage("shuffle", 0.001, arguments={"buffer_size": 1000}),
                stage("map", 0.03, stateful_random=True),
                stage("batch", 0.009),
            )
        ),
        # shuffled file names
        starved(
            *chain(
                stage("list_files", 0.0),
                stage("shuffle", 0.0, arguments={"buffer_size": 10_000}),
                stage("map", 0.09, **_FITS),
                stage("batch", 0.01),
            )
        ),
        # the length of the epoch stands in for the cardinality that records lack
        starved(
            *chain(stage("map", 0.09, **{**_FITS, "cardinality": None})),
            loop=Loop("fit", where=SITE, batch_size=32, epochs=None, epoch_steps=300),
        ),
        # a shuffle behind it is filled with the same work in every epoch
        starved(
            *chain(
                stage("map", 0.09, **_FITS),
                stage("shuffle", 0.001, arguments={"buffer_size": 5000}),
            ),
            loop=Loop("fit", where=SITE, batch_size=32, epochs=None, epoch_steps=300),
            between_epochs=BetweenEpochs(15.0, 2, epoch_steps=300, restart_s=14.0),
        ),
    ]
    tries_not = [
        starved(*chain(stage("map", 0.09, **_FITS)), resident=0.1),
        # the input takes next to nothing of what a step loses
        starved(*chain(stage("map", 0.0001, **_FITS)), real=0.0156, resident=0.013, input=0.0001),
        starved(stage("map", None, **_FITS), stage("cache", None)),
        starved(stage("map", None, stateful_random=True, **_FITS)),
        starved(stage("map", None, **_FITS), machine=machine(available=8 * GIB)),
        starved(
            stage("map", None, **_FITS),
            loop=Loop("fit", where=SITE, batch_size=32, epochs=1, epoch_steps=300),
        ),
    ]
    tries = [
        starved(stage("map", None, **_FITS)),
        starved(*chain(stage("map", 0.09, **_FITS)), resident=None),
        starved(
            stage("list_files", None),
            stage("shuffle", None, arguments={"buffer_size": 500}),
            stage("map", None, **_FITS),
            stage("batch", None),
            resident=None,
            input=None,
        ),
    ]
    examples = [
        Example(
            before="ds = ▸files.map(load)◂.batch(32)\n",
            after="ds = files.map(load).cache().batch(32)\n",
        ),
        Example(
            before="ds = ▸files.shuffle(1000).map(load)◂.batch(32)\n",
            after="ds = files.shuffle(1000).map(load).cache().shuffle(1000).batch(32)\n",
            data={"buffer": 1000},
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find deterministic work that fits in memory and is repeated in every epoch."""
        stages = evidence.stages
        epochs = evidence.loop.epochs
        if not evidence.input_bound or epochs == 1 or any(s.op == "cache" for s in stages):
            return None
        place = _place(evidence, stages)
        held = _fitting(evidence, place)
        if place is None or held is None or not is_taken(place.stage.seconds_per_step_):
            return None
        later = evidence.bound_if_input_saves(place.stage.cumulative)
        epoch = _epoch(evidence, place)
        if epoch is not None:
            steps_s = epoch["steps"] * evidence.times.real
            later = epoch["seconds"] / (steps_s / later + epoch["pause_s"])
        bound = later if epochs is None else epochs / (1 + (epochs - 1) / later)
        if not worth(evidence, bound):
            return None
        text = (
            f"Everything up to {label(place.stage)} takes {ms(place.stage.cumulative)} of each "
            f"step's input and gives the same elements in every epoch. They take "
            f"{size(held)} of the {size(evidence.machine.memory_available)} of memory free."
        )
        basis = (
            "the cached part"
            + (", and filling the shuffle," if epoch is not None else "")
            + " costs nothing from the second epoch on"
            + (f", over {epochs} epochs" if epochs else "")
        )
        return self._finding(place, text, bound, upper(evidence, basis), epoch)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a cache that fits where the stages, or the step without them, were not timed."""
        stages, epochs = evidence.stages, evidence.loop.epochs
        most = input_at_most(evidence)
        if epochs == 1 or most <= 1 + SMALLEST_GAIN or any(s.op == "cache" for s in stages):
            return None
        place = _place(evidence, stages)
        held = _fitting(evidence, place)
        if place is None or held is None:
            return None
        text = (
            f"{opening(place.stage)} gives the same elements in every epoch. They take "
            f"{size(held)} of the {size(evidence.machine.memory_available)} of memory free."
        )
        basis = upper(evidence, "input costs nothing from the second epoch on")
        epoch = _epoch(evidence, place) if is_taken(evidence.times.real_) else None
        return self._finding(place, text, None if epoch else known(most), basis, epoch)

    def _finding(
        self,
        place: Place,
        text: str,
        bound: float | None,
        basis: str,
        epoch: dict[str, Any] | None,
    ) -> Finding:
        buffer = _buffer(place)
        call = ".cache()" if buffer is None else f".cache().shuffle({buffer})"
        return self.finding(
            title="The same work is done again in every epoch",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=(place.stage.where,) if place.stage.where else (),
            advice=f"Put `{call}` after this stage.",
            snippet=f"dataset = dataset{call}",
            data=({} if buffer is None else {"buffer": buffer})
            | ({} if epoch is None else {"epoch": epoch}),
            equivalence=Equivalence.EXACT if place.shuffle is None else Equivalence.NUMERICS,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Append the cache, and the shuffle that keeps epochs different, to the stage."""
        buffer = finding.data.get("buffer")
        call = ".cache()" if buffer is None else f".cache().shuffle({buffer})"
        for site in finding.where:
            script.append_call(site, call)


def _place(evidence: Evidence, stages: tuple[Stage, ...]) -> Place | None:
    """The last stage worth caching, in the part of the chain that repeats itself.

    Behind a shuffle the part ends at the first batch: cached batches would hold the
    same samples together for ever.
    """
    best: Stage | None = None
    shuffle: Stage | None = None
    before_best: Stage | None = None
    for each in stages:
        if each.op == "shuffle":
            shuffle = each
            continue
        if not _repeats_itself(each) or (shuffle is not None and each.op in BATCHES):
            break
        if _mixes(each):
            shuffle = each
        if each.by_user and each.op != "prefetch" and _costs(evidence, each):
            best, before_best = each, shuffle
    if best is None or best.where is None:
        return None
    behind = stages[stages.index(best) + 1 :]
    return Place(best, before_best, any(each.op == "shuffle" for each in behind))


def _costs(evidence: Evidence, stage: Stage) -> bool:
    """Whether a stage takes a real share of the input; one that was not timed may, if it works."""
    if is_taken(stage.seconds_per_step_):
        return share(evidence, stage) >= REAL_SHARE
    return stage.op in WORKS


def _fitting(evidence: Evidence, place: Place | None) -> float | None:
    """Bytes of what a cache at `place` would hold; None where not known, or too much."""
    size = None if place is None else _size(evidence, place.stage)
    if size is None or size >= MEMORY_SHARE * evidence.machine.memory_available:
        return None
    return size


def _epoch(evidence: Evidence, place: Place) -> dict[str, Any] | None:
    """The epoch that trials have to hold whole; None where steps show all that is saved.

    A shuffle behind the cache fills its buffer with the expensive work before the first step
    of each epoch: what that takes is saved between epochs.
    """
    between, steps = evidence.between_epochs, evidence.loop.epoch_steps
    if not place.reshuffled or steps is None or between is None or between.restart_s is None:
        return None
    steps_s = steps * evidence.times.real
    if between.restart_s < LEAST_FILL * (steps_s + between.seconds):
        return None
    besides = max(0.0, between.seconds - between.restart_s)
    return {"steps": steps, "seconds": steps_s + between.seconds, "pause_s": besides}


def _repeats_itself(stage: Stage) -> bool:
    plain = stage.op.lower().replace("_", "").removesuffix("v2").removesuffix("dataset")
    known = plain in DETERMINISTIC
    endless = stage.cardinality == -1
    return known and not endless and not stage.stateful_random and not stage.python


def _mixes(stage: Stage) -> bool:
    """Whether the stage changes the order from epoch to epoch by itself."""
    if stage.op == "list_files":
        return "buffer_size" in stage.arguments  # that of the shuffle inside it
    return stage.arguments.get("deterministic") is False


def _buffer(place: Place) -> int | None:
    """The buffer of the shuffle to put behind the cache; None where none is needed."""
    if place.shuffle is None or place.reshuffled:
        return None
    given = place.shuffle.arguments.get("buffer_size")
    if isinstance(given, int) and given > 0:
        return given
    return place.stage.cardinality or 1000


def _size(evidence: Evidence, stage: Stage) -> float | None:
    """Bytes of all elements that leave the stage in one epoch; None if not known."""
    elements: float | None = stage.cardinality
    if elements is None and evidence.loop.epoch_steps and stage.elements_per_step:
        elements = evidence.loop.epoch_steps * stage.elements_per_step
    if elements is None or stage.element_bytes is None:
        return None
    return elements * stage.element_bytes
