"""The same expensive work done again in every epoch."""

from __future__ import annotations

import ast
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import input_at_most, known, label, opening, upper
from trainperf.fixes.common.repeating import not_repeated
from trainperf.fixes.common.words import SMALLEST_GAIN, ms, worth
from trainperf.fixes.tf_data.edits.caches import (
    Place,
    Room,
    buffer_of,
    epoch_of,
    place_of,
    put_cache,
    room_for,
)
from trainperf.fixes.tf_data.edits.mapped import (
    GIVEN,
    YIELDS,
    attribute_changed,
    call_at,
    generator_at,
    given_changed,
    name_changed,
    parsed,
    with_called,
)
from trainperf.fixes.tf_data.edits.slices import maker_asked, maker_given
from trainperf.model import Equivalence, Evidence, Finding, Site, is_taken
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of
from trainperf.source.iterations import of_this_function
from trainperf.source.module import Module
from trainperf.source.mutations import changes_shared
from trainperf.source.scopes import Function
from trainperf.source.statements import made_here, parameters, root

_KEPT = "no cache keeps what it yields"

_ENDLESS = ("itertools.cycle", "itertools.count")
_REPEAT = "itertools.repeat"
"""Calls of which a loop may never end."""

_PURE = frozenset(
    {
        "abs", "all", "any", "as_posix", "astype", "clip", "copy", "count", "decode", "encode",
        "endswith", "exists", "find", "flatten", "format", "get", "glob", "groupby", "head",
        "index", "is_file", "items", "iterdir", "iterrows", "itertuples", "join", "keys", "lower",
        "max", "mean", "min", "numpy", "ravel", "read_bytes", "read_text", "replace", "reshape",
        "resolve", "rglob", "round", "split", "splitlines", "startswith", "std", "strip", "sum",
        "to_numpy", "tobytes", "toarray", "tolist", "transpose", "upper", "values", "with_suffix",
    }
)  # fmt: skip
"""Methods that give the same each time and leave what they are called on as it is."""


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
            _check_repeats(script, finding.where[-1], finding.data["generator"])
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


def _check_repeats(script: Script, site: Site, seen: object) -> None:
    """Raise `CannotRewrite` unless the generator of the call at `site` surely repeats itself.

    `seen` is where the run saw it defined: file and line, or None. It must end by itself, call
    nothing that may draw or keeps state, and read nothing that changes behind it.
    """
    head = generator_at(script, site, seen)
    function, module = script.definition(head), parsed(script, head.file)
    name = function.name
    if isinstance(function, ast.AsyncFunctionDef) or _endless(module, function):
        raise CannotRewrite(f"{_KEPT}: {name} may go on for ever")
    drawn = not_repeated(module, function)
    if drawn:
        raise CannotRewrite(f"{_KEPT}: {name} calls {drawn}, which may give another result")
    kept = changes_shared(module, function.body) or _asked(module, function)
    if kept:
        raise CannotRewrite(f"{_KEPT}: {name} may change {kept}, or read on from it")
    there = module if head.file == site.file else parsed(script, site.file)
    call = call_at(script, there, site)
    given = argument(call, GIVEN["from_generator"], 0) or call
    maker = maker_asked(module, function) or maker_given(there, given)
    if maker:
        raise CannotRewrite(f"{_KEPT}: {name} goes through {maker}, which may make other items")
    changed = attribute_changed(module, function) or name_changed(module, function)
    changed = changed or given_changed(there, given)
    if changed:
        raise CannotRewrite(f"{_KEPT}: {name} reads {changed}, which may change between epochs")


def _endless(module: Module, function: Function) -> bool:
    for node in of_this_function(function.body):
        if isinstance(node, ast.While) and any(
            isinstance(each, YIELDS) for each in of_this_function(node.body)
        ):
            return True
        if isinstance(node, ast.Call):
            name, many = module.name(node.func), len(node.args) > 1
            if name in _ENDLESS or (name == "iter" and many) or (name == _REPEAT and not many):
                return True
    return False


def _asked(module: Module, function: Function) -> str:
    """A method of an object from outside of which it is not known that it changes nothing."""
    made = made_here(function.body)
    for each in with_called(module, function):
        own = made if each is function else made_here(each.body) | set(parameters(each))
        for node in ast.walk(each):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            name = root(node.func)
            if not name or name in own - {"self"} or node.func.attr in _PURE:
                continue
            if module.name(node.func) is None and function_of(module, node.func) is None:
                return f"{ast.unparse(node.func)}()"
    return ""
