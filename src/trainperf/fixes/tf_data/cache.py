"""The same expensive work of a pipeline done again in every epoch."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import (
    REAL_SHARE,
    label,
    opening,
    pays_later,
    restarted_epoch,
    share,
    upper,
)
from trainperf.fixes.common.repeating import MADE_ANEW
from trainperf.fixes.common.words import if_measured, ms, size
from trainperf.fixes.tf_data._source import (
    GIVEN,
    YIELDS,
    generator_at,
    goes_through_maker,
    mapped,
    with_called,
)
from trainperf.model import DrawnFrom, Epoch, Equivalence, Evidence, Finding, Site, Stage, is_taken
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.bodies import reached
from trainperf.source.effects import changing_attribute, changing_name, effects, first, repeats
from trainperf.source.iterations import loaded, of_this_function, stored
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import last_name, parameters, root

_MEMORY_SHARE = 0.5
"""The share of the free memory, or disk, a cache may take: the other half is for the rest."""

_LEAST_FILL = 0.10
"""The share of an epoch from which what a shuffle behind the cache takes to fill counts."""

_SOURCES = {"from_tensors", "from_tensor_slices", "range", "list_files", "concatenate", "zip"}
_READERS = {"tfrecord", "textline", "fixedlengthrecord", "csv"}
_WORK = {"map", "flat_map", "interleave", "filter", "take", "skip", "enumerate", "prefetch"}
_BATCHES = {"batch", "padded_batch", "ragged_batch", "unbatch", "rebatch", "window"}
_GENERATOR = "from_generator"
_WORKS = {"map", "flat_map", "interleave", _GENERATOR}
_DETERMINISTIC = {name.replace("_", "") for name in _SOURCES | _READERS | _WORK | _BATCHES}
"""Stages with the same elements in every epoch, if their function gives the same. Not listed, so
a cache never stands behind it: `repeat`, and what draws random numbers. Of a generator of the
user's only its source tells, which is read when the edit is written."""

_SAME_EACH_TIME = ("ReadFile", "Decode", "Resize", "Parse", "Extract", "AudioSpectrogram", "STFT")
"""Ops, by the start of their names, that cost and do the same to a file in every epoch."""


@dataclass(frozen=True)
class Place:
    """Where a cache can stand, and the shuffle before it, if there is one.

    With `split` it stands within the stage: behind the work that its function does and
    ahead of the random numbers that it draws then. `generator` is the user's, if one feeds it.
    """

    stage: Stage
    shuffle: Stage | None
    reshuffled: bool
    split: DrawnFrom | None = None
    generator: Stage | None = None

    @property
    def buffer(self) -> int | None:
        """The buffer of the shuffle to put behind the cache; None where none is needed."""
        if self.shuffle is None or self.reshuffled:
            return None
        given = self.shuffle.arguments.get("buffer_size")
        return given if isinstance(given, int) and given > 0 else self.stage.cardinality or 1000


class TfCache(Fix):
    """Keep the result of expensive work in memory after the first epoch.

    Why slow: The pipeline reads and decodes the same files in every epoch, with the same result.
    Changes: `.cache()` is put after the last expensive stage that gives the same each time, ahead
    of shuffling and random augmentation, in memory or a temporary file; a second `.shuffle`
    follows where the order would be frozen. A function that works first and draws then is split in
    two. A generator is cached where its source shows that it repeats itself.
    When not: When the same code also builds other datasets: each is cached. When a function draws
    random numbers in a way tf.data cannot see. When an epoch is left before its end: the cache is
    only kept once it is complete.
    """

    usual = 1.6
    warm_up_epochs = 1  # the first one fills it

    def look(self, evidence: Evidence) -> Cause | None:
        """Find deterministic work for which there is room and that is repeated in every epoch."""
        if evidence.loop.epochs == 1 or any(stage.op == "cache" for stage in evidence.stages):
            return None
        place = _place(evidence)
        room = None if place is None else _room(evidence, place)
        if place is None or room is None:
            return None
        stage, generator, buffer = place.stage, place.generator, place.buffer
        epoch = _epoch(evidence, place)
        takes, on_disk = room

        def later() -> float:
            saved = max(stage.cumulative, stage.seconds_per_step)
            bound = max(1.0, evidence.bound_if_input_saves(saved))
            if epoch is None:
                return bound
            left = epoch.steps * evidence.times.real / bound + epoch.pause_s
            return epoch.seconds / left

        call = ".cache(filename)" if on_disk else ".cache()"
        call += "" if buffer is None else f".shuffle({buffer})"
        advice, snippet = f"Put `{call}` after this stage.", f"dataset = dataset{call}"
        if place.split is not None:  # only the edit can tell the two functions apart
            advice = (
                f"Split the `map`: what is always the same, then `{call}`, then what is random."
            )
            snippet = ""
        data: dict[str, Any] = {} if buffer is None else {"buffer": buffer}
        data |= {"disk": True} if on_disk else {}
        data |= {} if place.split is None else {"split": place.split.line}
        if generator is not None:
            made = generator.function
            data["generator"] = [made.file, made.line] if made is not None and made.line else []
        where = [stage.where, None if generator is stage or generator is None else generator.where]
        filling = ", and filling the shuffle," if epoch is not None else ""
        basis = f"the cached part{filling} costs nothing from the second epoch on"
        same = place.shuffle is None and place.split is None
        return Cause(
            title="The same work is done again in every epoch",
            text=_text(place, takes),
            saves=Saving(upper(evidence, basis), ratio=later, of="input"),
            where=tuple(site for site in where if site is not None),
            advice=advice,
            snippet=snippet,
            # whether a generator yields the same again, only its source tells
            sure=generator is None and pays_later(evidence, later),
            equivalence=Equivalence.EXACT if same else Equivalence.NUMERICS,
            data=data,
            slices=epoch or "steps",
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Append the cache, and the shuffle that keeps epochs different, to the stage."""
        if "generator" in finding.data:
            _check_repeats(script, finding.where[-1], finding.data["generator"])
        site = finding.where[0]
        call = ".cache()"
        if finding.data.get("disk"):
            folder = script.free_name(site.file, "cache_folder")  # Python removes it at the end
            tempfile = script.module_name(site.file, "tempfile")
            script.insert_after_imports(site.file, f"{folder} = {tempfile}.TemporaryDirectory()")
            # one for each dataset
            call = f'.cache({tempfile}.mkdtemp(dir={folder}.name) + "/items")'
        if finding.data.get("buffer") is not None:
            call += f".shuffle({finding.data['buffer']})"
        if "split" in finding.data:
            call += _second_map(script, site, int(finding.data["split"]))
        script.append_call(site, call)


def _text(place: Place, takes: str) -> str:
    stage, generator = place.stage, place.generator
    if place.split is not None:
        return (
            f"{opening(stage)} makes the same in every epoch, and draws random numbers from line "
            f"{place.split.line} on. What it has made by then takes {takes}."
        )
    if generator is not None:
        return (
            f"{opening(generator)} makes its elements anew in every epoch. Where they are the same "
            f"in each, they have to be made only once; kept, they take {takes}."
        )
    costs = if_measured(lambda: f" takes {ms(stage.cumulative)} of each step's input and")
    return (
        f"Everything up to {label(stage)}{costs} gives the same elements in every epoch. "
        f"They take {takes}."
    )


# --------------------------------------------------------------- the place, and its room


def _place(evidence: Evidence) -> Place | None:
    """The last stage worth caching, in the part of the chain that repeats itself.

    Behind a shuffle the part ends at the first batch: cached batches would hold the
    same samples together for ever. Where a map that draws random numbers ends it and costs
    more than all before it, the place is within that map.
    """
    best = shuffle = before_best = generator = split = None
    for stage in evidence.stages:
        if stage.op == "shuffle":
            shuffle = stage
            continue
        if stage.op == _GENERATOR and stage.by_user:
            generator = stage
        elif not _repeats_itself(stage) or (shuffle is not None and stage.op in _BATCHES):
            if _works_before_it_draws(stage) and _costs(evidence, stage, best):
                best, before_best, split = stage, shuffle, stage.drawn_from
            break
        # both change the order from epoch to epoch by themselves
        listed = stage.op == "list_files" and "buffer_size" in stage.arguments
        if listed or stage.arguments.get("deterministic") is False:
            shuffle = stage
        if stage.by_user and stage.op != "prefetch" and _costs(evidence, stage):
            best, before_best = stage, shuffle
    if best is None or best.where is None:
        return None
    behind = evidence.stages[evidence.stages.index(best) + 1 :]
    reshuffled = any(stage.op == "shuffle" for stage in behind)
    return Place(best, before_best, reshuffled, split, generator)


def _works_before_it_draws(stage: Stage) -> bool:
    """Whether a map of the user's reads or decodes, and it is known where it begins to draw."""
    works = any(op.startswith(_SAME_EACH_TIME) for op in stage.ops)
    users = stage.by_user and stage.op == "map" and not stage.python
    return users and works and stage.drawn_from is not None


def _costs(evidence: Evidence, stage: Stage, before: Stage | None = None) -> bool:
    """Whether a stage takes a real share of the input, and more than all up to `before`.

    One that was not timed may, if it works.
    """
    if not is_taken(stage.seconds_per_step_):
        return stage.op in _WORKS
    ahead = before.cumulative if before is not None and is_taken(before.cumulative_) else 0.0
    return stage.seconds_per_step > ahead and share(evidence, stage) >= REAL_SHARE


def _repeats_itself(stage: Stage) -> bool:
    plain = stage.op.lower().replace("_", "").removesuffix("v2").removesuffix("dataset")
    endless = stage.cardinality == -1
    return plain in _DETERMINISTIC and not (endless or stage.stateful_random or stage.python)


def _room(evidence: Evidence, place: Place) -> tuple[str, bool] | None:
    """What a cache would take of what is free, and whether on disk; None if unknown or nowhere."""
    stage = place.stage
    each = stage.element_bytes if place.split is None else place.split.element_bytes
    elements: float | None = stage.cardinality
    if elements is None and evidence.loop.epoch_steps and stage.elements_per_step:
        elements = evidence.loop.epoch_steps * stage.elements_per_step
    if elements is None or each is None:
        return None
    held, machine = elements * each, evidence.machine
    for free, name in ((machine.memory_available, "memory"), (machine.disk_free, "disk")):
        if free is not None and held < _MEMORY_SHARE * free:
            return f"{size(held)} of the {size(free)} of {name} free", name == "disk"
    return None


def _epoch(evidence: Evidence, place: Place) -> Epoch | None:
    """The epoch that trials have to hold whole; None where steps show all that is saved.

    A shuffle behind the cache fills its buffer with the expensive work before the first step
    of each epoch: what that takes is saved between epochs.
    """
    between = evidence.between_epochs
    if not place.reshuffled or not is_taken(evidence.times.real_):
        return None
    epoch, fill = restarted_epoch(evidence), between.restart_s if between else None
    return epoch if epoch and fill and fill >= _LEAST_FILL * epoch.seconds else None


# -------------------------------------------------------------------------------- the edit


def _second_map(script: Script, site: Site, line: int) -> str:
    """Split the function of the map at `site` where it begins to draw; the call of the rest.

    It was seen to draw at `line`, and what it works on there was measured: another is refused.
    """
    module, function = mapped(script, site)
    if not isinstance(function, FUNCTIONS):
        raise CannotRewrite("a cache would split the map's function, which is not in the file")
    body = function.body
    named = (node for node in module.nodes if isinstance(node, ast.Name | ast.Attribute))
    uses = [node for node in named if last_name(node) == function.name]
    if len(uses) != 1 or function.decorator_list:
        raise CannotRewrite(f"a cache would split {function.name}, which is used elsewhere as well")
    draws = next((place for place, node in enumerate(body) if not repeats(module, node)), 0)
    if not any(isinstance(node, ast.Call) for part in body[:draws] for node in ast.walk(part)):
        raise CannotRewrite(f"{function.name} does nothing before it draws")
    if body[draws].lineno != line:
        raise CannotRewrite(f"{function.name} was seen to draw in line {line}, its source differs")
    ahead = [node for statement in body[:-1] for node in ast.walk(statement)]
    if not isinstance(body[-1], ast.Return) or any(isinstance(n, ast.Return) for n in ahead):
        raise CannotRewrite(f"{function.name} does not return once, at its end")
    handed = ", ".join(_handed_on(function, draws))
    method = parameters(function)[:1] == ["self"]
    name = script.free_name(site.file, f"{function.name}_random", f"{function.name}_augment")
    head = f"def {name}({'self, ' if method else ''}{handed}):"
    script.split_function(Site(site.file, body[draws].lineno), f"return {handed}", head)
    given = script.call(site)
    keywords = [keyword for keyword in given.keywords if keyword.arg != "map_func"]
    rest = [ast.unparse(value) for value in (*given.args[1:], *keywords)]
    return f".map({', '.join([f'self.{name}' if method else name, *rest])})"


def _handed_on(function: Function, first: int) -> list[str]:
    """The names that the second half needs of the first: as it returns them, then as given."""
    behind = function.body[first:]
    given = [name for name in parameters(function) if name not in ("self", "cls")]
    returned = [node.id for node in ast.walk(behind[-1]) if isinstance(node, ast.Name)]
    needed = loaded(behind)
    known = {*given, *stored(function.body[:first])} & needed
    return [name for name in dict.fromkeys([*returned, *given, *sorted(needed)]) if name in known]


# ---------------------------------------------------- generators that yield the same again

_ENDLESS = ("itertools.cycle", "itertools.count")
_REPEAT = "itertools.repeat"
"""Calls of which a loop may never end."""


def _check_repeats(script: Script, site: Site, seen: object) -> None:
    """Raise `CannotRewrite` unless the generator of the call at `site` surely repeats itself.

    `seen` is where the run saw it defined: file and line, or None. It must end by itself, call
    nothing that may draw or keeps state, and read nothing that changes behind it: what a cache
    freezes, a trial of a few epochs may not show.
    """
    head = generator_at(script, site, seen)
    function, module = script.definition(head), script.linked(head.file)
    there = module if head.file == site.file else script.linked(site.file)
    call = script.call(site)
    given = argument(call, GIVEN["from_generator"], 0) or call
    found = first(effects(module, [function]), "asks", "alone", *MADE_ANEW)
    owner = next((node for node in module.around(function) if isinstance(node, ast.ClassDef)), None)
    used = [node for node in reached(module, [function]) if isinstance(node, ast.Attribute)]
    read = {node.attr for node in used if root(node) == "self"}
    why = ""
    if isinstance(function, ast.AsyncFunctionDef) or _endless(module, function):
        why = "may go on for ever"
    elif found is not None:
        why = f"may change {found.text}, or read on from it"
        if found.kind in ("draws", "unknown"):
            why = f"calls {found.text}, which may give another result"
    elif maker := goes_through_maker(module, function, there, given):
        why = f"goes through {maker}, which may make other items"
    elif changed := (
        changing_attribute([module], owner, read)
        or changing_name(module, with_called(module, function), call.lineno)
        or changing_name(there, [given], call.lineno)
    ):
        why = f"reads {changed}, which may change between epochs"
    if why:
        raise CannotRewrite(f"no cache keeps what it yields: {function.name} {why}")


def _endless(module: Module, function: Function) -> bool:
    for node in of_this_function(function.body):
        if isinstance(node, ast.While) and any(
            isinstance(part, YIELDS) for part in of_this_function(node.body)
        ):
            return True
        if isinstance(node, ast.Call):
            name, many = module.name(node.func), len(node.args) > 1
            if name in _ENDLESS or (name == "iter" and many) or (name == _REPEAT and not many):
                return True
    return False
