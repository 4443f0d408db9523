"""Items, or what they begin with, made once and kept: in memory, or in files that workers share."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.keeping import (
    INSIDE,
    MOST,
    at_statement,
    changing,
    class_of_items,
    in_memory,
    move_part,
)
from trainperf.fixes.common.repeating import changing_attribute, fixed_statements
from trainperf.fixes.common.words import size
from trainperf.fixes.dataloader._edits import check_call
from trainperf.fixes.dataloader._loader import ITEM, ranks
from trainperf.fixes.torch_step._source import refuse_if_named
from trainperf.model import Evidence, Loader, Site, is_taken
from trainperf.source.statements import parameters

if TYPE_CHECKING:
    from trainperf.rewrite import Script

DEFAULT_COLLATE = "default_collate"

IN_FILES = '''\
def {name}(make):
    """Keep in a file what `make` returned for an index: all workers read it, in every epoch."""

    @{functools}.wraps(make)
    def kept(self, index):
        if not isinstance(index, {numbers}.Integral):
            return make(self, index)
        path = {os}.path.join(self.made_in, str(index))
        if {os}.path.exists(path):
            with open(path, "rb") as file:
                return {pickle}.load(file)
        item = make(self, index)
        part = f"{{path}}.{{{os}.getpid()}}"
        with open(part, "wb") as file:
            {pickle}.dump(item, file, {pickle}.HIGHEST_PROTOCOL)
        {os}.replace(part, path)
        return item

    return kept
'''

WRAPPER = '''\


class {cls}({torch}.utils.data.Dataset):
    """The items of a dataset, each made once."""

    def __init__(self, dataset):
        self.dataset = dataset
{folder}
    def __len__(self):
        return len(self.dataset)

    @{name}
    def __getitem__(self, index):
        return self.dataset[index]
'''

HELD = ("transform", "transforms", "target_transform", "data", "targets", "samples", "imgs")
"""Attributes from which datasets of libraries make their items."""

FOLDER = """\
self.made_in = {tempfile}.mkdtemp(prefix="items-")
{atexit}.register({shutil}.rmtree, self.made_in, ignore_errors=True)
"""


def keepable(evidence: Evidence) -> dict[str, Any]:
    """Return what a finding's data must hold for its items to be kept; empty where they cannot.

    `store` is "memory", or "files" where there are workers or memory is short; `whole` says that
    items came out the same when made again, `copied` that what takes them may write into them.
    """
    loader = evidence.torch.loader
    held = held_bytes(evidence)
    if loader.iterable or held is None or evidence.loop.epochs == 1:
        return {}
    if edited_place(loader) is None:
        return {}
    room = evidence.facts.get("temporary_free")
    if loader.workers == 0 and held < MOST * evidence.machine.memory_available:
        store = "memory"
    elif isinstance(room, int | float) and held < MOST * room:
        store = "files"
    else:
        return {}
    seen = [loader.where.file] if loader.where is not None else []
    return {
        "store": store,
        "whole": bool(loader.repeats),
        "copied": not _collated_by_torch(evidence),
        "files": seen,
        "wrapped": edited_place(loader) != loader.item,
    }


def edited_place(loader: Loader) -> Site | None:
    """Return where items are kept: the user's `__getitem__`, or the loader of a library's dataset.

    A library's is put into another that keeps its items, where these came out the same when made
    again. None where there is neither.
    """
    if loader.item is not None and loader.item.function.rpartition(".")[2] == "__getitem__":
        return loader.item
    exact = loader.where is not None and loader.where.exact
    return loader.where if exact and loader.repeats else None


def held_bytes(evidence: Evidence) -> float | None:
    """Return the bytes that all items take at most when kept, None where that is not known."""
    for stage in evidence.stages if is_taken(evidence.stages_) else ():
        if stage.op == ITEM and stage.element_bytes and (stage.cardinality or 0) > 0:
            inside = 1 if evidence.torch.loader.repeats else INSIDE
            each = stage.element_bytes * inside
            return float(each * (stage.cardinality or 0) * ranks(evidence))
    return None


def kept_said(evidence: Evidence, data: dict[str, Any]) -> str:
    """Say what keeping the items takes, as a sentence; "" where they are not kept."""
    held = held_bytes(evidence)
    if not data or held is None:
        return ""
    room = f"{size(evidence.machine.memory_available)} of memory free"
    if data["store"] == "files":
        room = f"{size(evidence.facts['temporary_free'])} free for temporary files"
    same = "They come out the same when made again" if data["whole"] else "Part of it is random"
    most = "" if data["whole"] else "at most "
    return f" {same}; kept from the first epoch on, they take {most}{size(held)} of the {room}."


def _collated_by_torch(evidence: Evidence) -> bool:
    """Whether PyTorch's own collate function copies the items into a batch."""
    for stage in evidence.stages if is_taken(evidence.stages_) else ():
        if stage.arguments.get("collate_fn") == DEFAULT_COLLATE:
            return True
    return False


def keep_items(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Have the `__getitem__` whose head is at `site` make each item once, or what it begins with.

    Of a library's dataset, `site` is the call that builds the loader. Raises `CannotRewrite` where
    the source does not show that these stay the same.
    """
    if data.get("wrapped"):
        _wrap_dataset(script, site, data)
        return
    function = script.definition(site)
    module = script.linked(site.file)
    owner = class_of_items(module, function)
    fixed = [] if data["whole"] else fixed_statements(module, function)
    if not data["whole"] and not fixed:
        raise CannotRewrite("nothing costly comes ahead of what may be random in __getitem__")
    others = [name for name in data["files"] if name != site.file]
    modules = [module, *(script.source(name).module for name in others)]
    changed = changing(modules, owner, fixed or [function])
    if changed:
        raise CannotRewrite(f"{changed} changes after the dataset was built, so items may as well")
    if data["store"] == "files":
        _make_folder(script, site, owner)
    once = script.free_name(site.file, "made_once")
    if data["whole"]:
        script.decorate(site, once)
    else:
        rest = function.body[function.body.index(fixed[-1]) + 1 :]
        name = script.free_name(site.file, "made_item")
        move_part(script, site, fixed, rest, once, name, parameters(function))
    _add_helper(script, site.file, once, data["store"], data["copied"] or not data["whole"])


def _wrap_dataset(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Put the dataset of a loader into one that keeps its items."""
    check_call(script, site)
    refuse_if_named(script, site.file, ".dataset.")
    module = script.source(site.file).module
    changed = changing_attribute([module], None, HELD)
    if changed:
        raise CannotRewrite(f"{changed} changes after the dataset was built, so items may as well")
    place = script.argument(site, 0, "dataset")
    if place is None:
        raise CannotRewrite("the call does not write out its dataset")
    once, cls = (script.free_name(site.file, name) for name in ("made_once", "MadeOnce"))
    script.replace_call(place, f"{cls}({script.expression(place)})")
    _add_helper(script, site.file, once, data["store"], data["copied"], cls)


def _make_folder(script: Script, site: Site, owner: ast.ClassDef) -> None:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for line in _folder(script, site.file):
                script.insert_first(at_statement(site, node), line)
            return
    raise CannotRewrite("its class has no __init__ that could say where items are kept")


def _folder(script: Script, file: str) -> list[str]:
    modules = ("tempfile", "atexit", "shutil")
    names = {each: script.module_name(file, each) for each in modules}
    return FOLDER.format(**names).splitlines()


def _add_helper(
    script: Script, file: str, once: str, store: str, copied: bool, wrapper: str = ""
) -> None:
    modules = ["functools", "numbers"]
    if store == "files":
        modules += ["os", "pickle"]
    elif copied:
        modules += ["copy"]
    names = {each: script.module_name(file, each) for each in modules}
    text = IN_FILES.format(name=once, **names) if store == "files" else in_memory(once, **names)
    if wrapper:
        lines = _folder(script, file) if store == "files" else []
        folder = "".join(f"        {line}\n" for line in lines)
        torch = script.module_name(file, "torch")
        text += WRAPPER.format(torch=torch, folder=folder, name=once, cls=wrapper)
    script.insert_function(file, text)
