"""A cache in a pipeline: the stage it can stand behind, what it would hold, memory or file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.pipeline import REAL_SHARE, share
from trainperf.fixes.common.words import size
from trainperf.fixes.tf_data.edits.mapped import mapped
from trainperf.model import DrawnFrom, Evidence, Site, Stage, is_taken
from trainperf.rewrite import Script
from trainperf.source.bodies import drawing, function_of
from trainperf.source.iterations import loaded, stored
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import assigned, parameters

FOLDER = "cache_folder"
"""The name of a disk cache's temporary folder, which Python removes at the end."""

PYTHON = {"shape", "numpy", "item", "get_shape", "rank", "ndim"}
"""Attributes that give Python values, which a dataset does not carry from map to map."""

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


def put_cache(script: Script, site: Site, data: Mapping[str, Any]) -> None:
    """Put a cache behind the stage at `site`, or between the halves of its function.

    `data` may have "buffer" (of the shuffle that follows), "disk" (a file, not memory) and
    "split" (the line at which the function, behind what costs, begins to draw random numbers).
    """
    call = ".cache()"
    if data.get("disk"):
        folder = script.free_name(site.file, FOLDER)
        tempfile = script.module_name(site.file, "tempfile")
        script.insert_after_imports(site.file, f"{folder} = {tempfile}.TemporaryDirectory()")
        call = f'.cache({tempfile}.mkdtemp(dir={folder}.name) + "/items")'  # one for each dataset
    if data.get("buffer") is not None:
        call += f".shuffle({data['buffer']})"
    if "split" in data:
        try:
            call += _second_map(script, site, int(data["split"]))
        except CannotRewrite as error:
            reason = f"the map is not split for a cache: {error.reason}"
            raise CannotRewrite(reason) from None
    script.append_call(site, call)


def _second_map(script: Script, site: Site, line: int) -> str:
    """Split the function of the map at `site` where it begins to draw; the call of the rest.

    It was seen to draw at `line`, and what it works on there was measured: another is refused.
    """
    module, function = mapped(script, site)
    if not isinstance(function, FUNCTIONS):
        raise CannotRewrite("the function of the map is not defined in the file")
    method = parameters(function)[:1] == ["self"]
    uses = [each for each in module.nodes if _names(each, function.name)]
    if len(uses) != 1 or function.decorator_list:
        raise CannotRewrite(f"{function.name} is used elsewhere as well")
    first = _first_random(module, function)
    if function.body[first].lineno != line:
        where = f"in line {function.body[first].lineno}, but it was seen to draw in line {line}"
        raise CannotRewrite(f"{function.name} would be split {where}")
    handed = _handed_on(module, function, first)
    name = script.free_name(site.file, f"{function.name}_random", f"{function.name}_augment")
    listed = ", ".join(handed)
    head = f"def {name}({'self, ' if method else ''}{listed}):"
    place = Site(site.file, function.body[first].lineno)
    script.split_function(place, f"return {listed}", head)
    given = script.expression(site)
    old = ast.parse(f"({given})", mode="eval").body
    assert isinstance(old, ast.Call)
    new = f"self.{name}" if method else name
    rest = [ast.unparse(each) for each in (*old.args[1:], *old.keywords)]
    if any(each.arg == "map_func" for each in old.keywords):
        raise CannotRewrite("the map names its function as a keyword")
    return f".map({', '.join([new, *rest])})"


def _names(node: ast.AST, name: str) -> bool:
    is_name = isinstance(node, ast.Name) and node.id == name
    return is_name or (isinstance(node, ast.Attribute) and node.attr == name)


def _first_random(module: Module, function: Function) -> int:
    """The index of the statement from which on the function may draw; the work is ahead of it."""
    body, start = function.body, 1 if ast.get_docstring(function) is not None else 0
    last = body[-1]
    early = [each for one in body[:-1] for each in ast.walk(one) if isinstance(each, ast.Return)]
    if not isinstance(last, ast.Return) or early:
        raise CannotRewrite(f"{function.name} does not return once, at its end")
    if function.args.vararg or function.args.kwarg or function.args.kwonlyargs:
        raise CannotRewrite(f"the arguments of {function.name} are not seen")
    for index, statement in enumerate(body[start:], start):
        if _may_draw(module, statement):
            ahead = (each for one in body[start:index] for each in ast.walk(one))
            if not any(isinstance(each, ast.Call) for each in ahead):
                raise CannotRewrite(f"{function.name} draws random numbers before it works")
            return index
    raise CannotRewrite(f"where {function.name} draws random numbers is not seen")


def _may_draw(module: Module, statement: ast.stmt) -> bool:
    """Whether a statement draws random numbers, or calls something of which that is not known."""
    if drawing(module, statement) is not None:
        return True
    for call in (each for each in ast.walk(statement) if isinstance(each, ast.Call)):
        if function_of(module, call.func) is not None:
            continue  # `drawing` has followed it
        name = module.name(call.func) or ""
        imported = name.startswith(("tensorflow.", "keras.")) and "random" not in name.lower()
        known = isinstance(call.func, ast.Name) and name in dir(builtins)
        if not imported and not known and not _of_a_tensor(call):
            return True
    return False


def _of_a_tensor(call: ast.Call) -> bool:
    """Whether a method is one of tensors: `image.set_shape(…)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("set_shape", "get_shape")


def _handed_on(module: Module, function: Function, first: int) -> list[str]:
    """The names that the second half needs of the first, in the order of the parameters."""
    ahead, behind = function.body[:first], function.body[first:]
    given = [each for each in parameters(function) if each not in ("self", "cls")]
    returned = [each.id for each in ast.walk(behind[-1]) if isinstance(each, ast.Name)]
    known, needed = {*given, *stored(ahead)}, loaded(behind)
    order = dict.fromkeys([*returned, *given, *sorted(needed)])
    handed = [name for name in order if name in known & needed]
    if not handed:
        raise CannotRewrite(f"{function.name} hands nothing on")
    with_default = parameters(function)[len(parameters(function)) - len(function.args.defaults) :]
    for name in with_default:  # a number of Python's, if it is no part of an element
        if name in handed:
            raise CannotRewrite(f"{name} has a default in {function.name}")
    for name in handed:
        values = [one for one in ahead for target in assigned(one) if _is(target, name)]
        for statement in values:
            value = getattr(statement, "value", None)
            attributes = {e.attr for e in ast.walk(statement) if isinstance(e, ast.Attribute)}
            if value is None or isinstance(value, ast.Constant | ast.Tuple | ast.List):
                raise CannotRewrite(f"{name} is no tensor where {function.name} would be split")
            if attributes & PYTHON:
                raise CannotRewrite(f"{name} may be a Python value in {function.name}")
    return handed


def _is(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


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
        if each.op == _GENERATOR and each.by_user:
            generator = each
        elif not _repeats_itself(each) or (shuffle is not None and each.op in _BATCHES):
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
    works = any(op.startswith(_SAME_EACH_TIME) for op in stage.ops)
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
    return stage.op in _WORKS


def room_for(evidence: Evidence, place: Place | None) -> Room | None:
    """Where what a cache at `place` would hold finds room; None where not known, or nowhere."""
    held = None if place is None else _size(evidence, place)
    if held is None:
        return None
    free = evidence.machine.memory_available
    if held < _MEMORY_SHARE * free:
        return Room(held, free)
    disk = evidence.machine.disk_free
    if disk is not None and held < _MEMORY_SHARE * disk:
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
    if between.restart_s < _LEAST_FILL * (steps_s + between.seconds):
        return None
    besides = max(0.0, between.seconds - between.restart_s)
    return {"steps": steps, "seconds": steps_s + between.seconds, "pause_s": besides}


def _repeats_itself(stage: Stage) -> bool:
    plain = stage.op.lower().replace("_", "").removesuffix("v2").removesuffix("dataset")
    known = plain in _DETERMINISTIC
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
