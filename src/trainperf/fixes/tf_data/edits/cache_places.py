"""The stage of a pipeline behind which a cache can stand, and what it would hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainperf.fixes.common.pipeline import REAL_SHARE, share
from trainperf.fixes.common.words import size
from trainperf.model import DrawnFrom, Evidence, Stage, is_taken

MEMORY_SHARE = 0.5
"""The share of the free memory, or disk, a cache may take: the other half is for the rest."""

LEAST_FILL = 0.10
"""The share of an epoch from which what a shuffle behind the cache takes to fill counts."""

SOURCES = {"from_tensors", "from_tensor_slices", "range", "list_files", "concatenate", "zip"}
READERS = {"tfrecord", "textline", "fixedlengthrecord", "csv"}
WORK = {"map", "flat_map", "interleave", "filter", "take", "skip", "enumerate", "prefetch"}
BATCHES = {"batch", "padded_batch", "ragged_batch", "unbatch", "rebatch", "window"}
GENERATOR = "from_generator"
WORKS = {"map", "flat_map", "interleave", GENERATOR}
DETERMINISTIC = {name.replace("_", "") for name in SOURCES | READERS | WORK | BATCHES}
"""Stages with the same elements in every epoch, if their function gives the same. Not listed, so
a cache never stands behind it: `repeat`, and what draws random numbers. Of a generator of the
user's only its source tells, which is read when the edit is written."""

SAME_EACH_TIME = ("ReadFile", "Decode", "Resize", "Parse", "Extract", "AudioSpectrogram", "STFT")
"""Ops, by the start of their names, that cost and do the same to a file in every epoch."""


@dataclass(frozen=True)
class Place:
    """Where a cache can stand, and whether a shuffle stands before it.

    With `split` it stands within the stage: behind the work that its function does and
    ahead of the random numbers that it draws then. `generator` is the user's, if one feeds it.
    """

    stage: Stage
    shuffle: Stage | None
    reshuffled: bool
    split: DrawnFrom | None = None
    generator: Stage | None = None


@dataclass(frozen=True)
class Room:
    """The size of what a cache would hold, and where there is room for it."""

    held: float
    free: float
    on_disk: bool = False

    def words(self) -> str:
        """Say how much it takes of what is free."""
        where = "disk" if self.on_disk else "memory"
        return f"{size(self.held)} of the {size(self.free)} of {where} free"


def place_of(evidence: Evidence) -> Place | None:
    """The last stage worth caching, in the part of the chain that repeats itself.

    Behind a shuffle the part ends at the first batch: cached batches would hold the
    same samples together for ever. Where a map that draws random numbers ends it and costs
    more than all before it, the place is within that map.
    """
    stages = evidence.stages
    best: Stage | None = None
    shuffle: Stage | None = None
    before_best: Stage | None = None
    generator: Stage | None = None
    for each in stages:
        if each.op == "shuffle":
            shuffle = each
            continue
        if each.op == GENERATOR and each.by_user:
            generator = each
        elif not _repeats_itself(each) or (shuffle is not None and each.op in BATCHES):
            if _works_before_it_draws(each) and _costs_more(evidence, each, best):
                behind = _shuffled_behind(stages, each)
                return Place(each, shuffle, behind, each.drawn_from, generator)
            break
        if _mixes(each):
            shuffle = each
        if each.by_user and each.op != "prefetch" and _costs(evidence, each):
            best, before_best = each, shuffle
    if best is None or best.where is None:
        return None
    return Place(best, before_best, _shuffled_behind(stages, best), generator=generator)


def _shuffled_behind(stages: tuple[Stage, ...], stage: Stage) -> bool:
    return any(each.op == "shuffle" for each in stages[stages.index(stage) + 1 :])


def _works_before_it_draws(stage: Stage) -> bool:
    """Whether a map of the user's reads or decodes, and it is known where it begins to draw."""
    works = any(op.startswith(SAME_EACH_TIME) for op in stage.ops)
    users = stage.by_user and stage.where is not None and stage.op == "map"
    return users and works and stage.drawn_from is not None and not stage.python


def _costs_more(evidence: Evidence, stage: Stage, best: Stage | None) -> bool:
    if best is None or not is_taken(stage.seconds_per_step_) or not is_taken(best.cumulative_):
        return _costs(evidence, stage)
    return _costs(evidence, stage) and stage.seconds_per_step > best.cumulative


def _costs(evidence: Evidence, stage: Stage) -> bool:
    """Whether a stage takes a real share of the input; one that was not timed may, if it works."""
    if is_taken(stage.seconds_per_step_):
        return share(evidence, stage) >= REAL_SHARE
    return stage.op in WORKS


def room_for(evidence: Evidence, place: Place | None) -> Room | None:
    """Where what a cache at `place` would hold finds room; None where not known, or nowhere."""
    held = None if place is None else _size(evidence, place)
    if held is None:
        return None
    free = evidence.machine.memory_available
    if held < MEMORY_SHARE * free:
        return Room(held, free)
    disk = evidence.machine.disk_free
    if disk is not None and held < MEMORY_SHARE * disk:
        return Room(held, disk, on_disk=True)
    return None


def epoch_of(evidence: Evidence, place: Place) -> dict[str, Any] | None:
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


def buffer_of(place: Place) -> int | None:
    """The buffer of the shuffle to put behind the cache; None where none is needed."""
    if place.shuffle is None or place.reshuffled:
        return None
    given = place.shuffle.arguments.get("buffer_size")
    if isinstance(given, int) and given > 0:
        return given
    return place.stage.cardinality or 1000


def _size(evidence: Evidence, place: Place) -> float | None:
    """Bytes of all elements of one epoch that a cache at `place` would hold; None if not known."""
    stage = place.stage
    each = stage.element_bytes if place.split is None else place.split.element_bytes
    elements: float | None = stage.cardinality
    if elements is None and evidence.loop.epoch_steps and stage.elements_per_step:
        elements = evidence.loop.epoch_steps * stage.elements_per_step
    return None if elements is None or each is None else elements * each
