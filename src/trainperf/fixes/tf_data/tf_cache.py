"""The same expensive work done again in every epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import (
    input_at_most,
    known,
    label,
    opening,
    upper,
)
from trainperf.fixes.common.words import SMALLEST_GAIN, ms, worth
from trainperf.fixes.tf_data.edits.cache_places import (
    Place,
    Room,
    buffer_of,
    epoch_of,
    place_of,
    room_for,
)
from trainperf.fixes.tf_data.edits.caches import put_cache
from trainperf.fixes.tf_data.edits.repeated import check_repeats
from trainperf.model import Equivalence, Evidence, Finding, is_taken

if TYPE_CHECKING:
    from trainperf.rewrite import Script


class Cache(Fix):
    """Keep the result of expensive work in memory after the first epoch.

    ## Why it is slow
    The pipeline reads and decodes the same files in every epoch, with the same result.

    ## What changes
    `.cache()` is put after the last expensive stage that gives the same result each time,
    ahead of shuffling and random augmentation. Later epochs read memory.
    A function that works first and draws then is split in two, the cache between them.
    A generator is cached where its source shows that it yields the same in every epoch.
    Where the dataset is shuffled ahead of that stage, a second `.shuffle` follows the
    cache, which would freeze the order otherwise. What has no room in memory is kept in a
    temporary file.

    ## When not to
    When the same code also builds other datasets: each is cached.
    When a function draws random numbers in a way tf.data cannot see; a generator that draws,
    keeps state, goes through a `Sequence` or reads what changes between epochs is left alone.
    When an epoch is left before its end: the cache is only kept once it is complete.
    """

    category = "input"
    usual = 1.6
    equivalence = Equivalence.EXACT
    warm_up_epochs = 1  # the first one fills it

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find deterministic work for which there is room and that is repeated in every epoch."""
        found = self._timed(evidence)
        # Whether a generator yields the same again, only its source tells.
        return None if found is None or "generator" in found.data else found

    def _timed(self, evidence: Evidence) -> Finding | None:
        epochs = evidence.loop.epochs
        if not evidence.input_bound or epochs == 1 or _cached(evidence):
            return None
        place = place_of(evidence)
        room = room_for(evidence, place)
        if place is None or room is None or not is_taken(place.stage.seconds_per_step_):
            return None
        later = evidence.bound_if_input_saves(place.stage.cumulative)
        epoch = epoch_of(evidence, place)
        if epoch is not None:
            steps_s = epoch["steps"] * evidence.times.real
            later = epoch["seconds"] / (steps_s / later + epoch["pause_s"])
        whole = later if epochs is None else epochs / (1 + (epochs - 1) / later)
        if not worth(evidence, whole):
            return None
        text = (
            f"Everything up to {label(place.stage)} takes {ms(place.stage.cumulative)} of each "
            f"step's input and gives the same elements in every epoch. They take {room.words()}."
        )
        text = _open_text(place, room) or text
        basis = (
            "the cached part"
            + (", and filling the shuffle," if epoch is not None else "")
            + " costs nothing from the second epoch on"
        )
        return self._finding(place, room, text, later, upper(evidence, basis), epoch)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a cache that fits where the stages were not timed, or a generator feeds them."""
        most = input_at_most(evidence)
        try:
            timed = self._timed(evidence.favourable())
        except NotMeasured:
            timed = None
        if timed is not None:
            return timed
        if evidence.loop.epochs == 1 or most <= 1 + SMALLEST_GAIN or _cached(evidence):
            return None
        place = place_of(evidence)
        room = room_for(evidence, place)
        if place is None or room is None:
            return None
        text = (
            f"{opening(place.stage)} gives the same elements in every epoch. They take "
            f"{room.words()}."
        )
        text = _open_text(place, room) or text
        basis = upper(evidence, "input costs nothing from the second epoch on")
        epoch = epoch_of(evidence, place) if is_taken(evidence.times.real_) else None
        return self._finding(place, room, text, None if epoch else known(most), basis, epoch)

    def _finding(
        self,
        place: Place,
        room: Room,
        text: str,
        bound: float | None,
        basis: str,
        epoch: dict[str, Any] | None,
    ) -> Finding:
        buffer = buffer_of(place)
        call = ".cache(filename)" if room.on_disk else ".cache()"
        call += "" if buffer is None else f".shuffle({buffer})"
        data: dict[str, Any] = {} if buffer is None else {"buffer": buffer}
        data |= {"disk": True} if room.on_disk else {}
        snippet = f"dataset = dataset{call}"
        if place.split is not None:  # only the edit can tell the two functions apart
            data["split"], snippet = place.split.line, ""
        sites = [place.stage.where] if place.stage.where else []
        if place.generator is not None:
            made = place.generator.function
            data["generator"] = [made.file, made.line] if made is not None and made.line else []
            if place.generator is not place.stage and place.generator.where is not None:
                sites.append(place.generator.where)
        same = place.shuffle is None and place.split is None
        advice = f"Put `{call}` after this stage."
        if place.split is not None:
            advice = f"Let one `map` work and another draw, and put `{call}` between them."
        return self.finding(
            title="The same work is done again in every epoch",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=tuple(sites),
            advice=advice,
            snippet=snippet,
            data=data | ({} if epoch is None else {"epoch": epoch}),
            equivalence=Equivalence.EXACT if same else Equivalence.NUMERICS,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Append the cache, and the shuffle that keeps epochs different, to the stage."""
        if "generator" in finding.data:
            check_repeats(script, finding.where[-1], finding.data["generator"])
        put_cache(script, finding.where[0], finding.data)


def _cached(evidence: Evidence) -> bool:
    return any(each.op == "cache" for each in evidence.stages)


def _open_text(place: Place, room: Room) -> str:
    """The text where only the source tells whether, or from where on, elements repeat."""
    if place.split is not None:
        return (
            f"{opening(place.stage)} reads or decodes what is the same in every epoch, and draws "
            f"random numbers for it from line {place.split.line} on. What it has made by then "
            f"takes {room.words()}."
        )
    if place.generator is None:
        return ""
    return (
        f"{opening(place.generator)} makes its elements anew in every epoch. Where they are the "
        f"same in each, they have to be made only once; kept, they take {room.words()}."
    )
