"""Python work for every sample, in `__getitem__`."""

from __future__ import annotations

import ast
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import REAL_SHARE, pipeline_seconds
from trainperf.fixes.common.repeating import (
    INSIDE,
    MOST,
    at_statement,
    changing,
    changing_attribute,
    class_of_items,
    fixed_statements,
    in_memory,
    move_part,
)
from trainperf.fixes.common.words import at, ms, percent, size, worth
from trainperf.fixes.dataloader._edits import check_call
from trainperf.fixes.dataloader._loader import (
    COLLATE,
    ITEM,
    named,
    ranks,
    stage_seconds,
    takes_nothing,
    waits_at_most,
)
from trainperf.fixes.torch_step._source import refuse_if_named
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    FunctionCost,
    Loader,
    Site,
    Torch,
    is_taken,
)
from trainperf.rewrite import Script
from trainperf.source.statements import parameters

MOST_NAMED = 3

FOR_ITEMS = """\
# once, before training: what is the same in every epoch
prepared = [prepare(sample) for sample in samples]
torch.save(prepared, "prepared.pt")

# then __getitem__ only fetches, and draws what is random
def __getitem__(self, index):
    return augment(self.prepared[index])"""

KEPT = """\
@made_once  # keeps what it returned for an index
def prepared(self, index):
    return resize(decode(self.files[index]))

def __getitem__(self, index):
    return augment(self.prepared(index))"""

ITEMS_ADVICE = "Prepare once what is the same in every epoch; do the rest for whole batches."
KEEP_ADVICE = "Make what is the same in every epoch once, and keep it."


class ItemWork(Fix):
    """Do less for each sample while training.

    ## Why it is slow
    `__getitem__` runs for every sample of every epoch. Tokenising, decoding, resizing and loops
    in Python that could be done once, or for a whole batch in one array operation, are paid
    for each time.

    ## What changes
    What is the same in every epoch is made once, in the first, and kept: in memory, or
    where there are workers in temporary files that they share. Items that come out the same
    when made again are kept whole (a library's dataset is put into one that keeps them); of
    others, what `__getitem__` does ahead of anything random. Nothing else changes. By hand
    more can be stored (arrays, shards, pre-tokenised data), and what is random be done for
    whole batches.

    ## When not to
    - When what is kept would not fit the memory or the disk, or there is one epoch only. Other
      datasets of the same class (validation) are kept as well.
    - When the dataset changes while training (`dataset.epoch = 3`, a buffer that grows): no
      edit is written where the source shows that.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.NUMERICS
    usual = 1.6
    warm_up_epochs = 1  # the first one makes the items
    try_before = (
        "torch_workers",
        "torch_file_per_item",
        "torch_column_per_item",
        "s3_request_latency",
        "storage_small_files",
        "storage_throughput",
    )

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find items that the loop waits for, and the functions in them."""
        if not evidence.input_bound:
            return None
        loader, timed = evidence.torch.loader, stage_seconds(evidence)
        own = {name: timed[name] for name in (ITEM, COLLATE) if name in timed}
        if ITEM not in own or own.get(COLLATE, 0.0) > own[ITEM]:
            return None
        seconds = sum(own.values())
        share = min(1.0, seconds / max(pipeline_seconds(evidence), evidence.times.input, 1e-9))
        if loader.workers:  # they share the work: of the time they take, it is as large a part
            share = min(1.0, seconds / max(pipeline_seconds(evidence), 1e-9))
        if share < REAL_SHARE:
            return None
        bound = evidence.bound_if_input_saves(evidence.times.input * share)
        if not worth(evidence, bound):
            return None
        kept = keepable(evidence)
        place = edited_place(loader) if kept else loader.item
        return self.finding(
            title="Each sample takes long to make",
            text=_text(evidence, loader, own) + kept_said(evidence, kept),
            bound=bound,
            bound_basis="items and collating cost nothing",
            where=() if place is None else (place,),
            advice=KEEP_ADVICE if kept else ITEMS_ADVICE,
            snippet=KEPT if kept else FOR_ITEMS,
            data=kept,
            equivalence=Equivalence.EXACT if kept else None,
            rewritable=bool(kept),
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try to keep what can be kept, unless it surely takes next to nothing."""
        kept, timed = keepable(evidence), stage_seconds(evidence)
        items = timed.get(ITEM)
        if not kept or takes_nothing(evidence, items):
            return None
        if items is not None and timed.get(COLLATE, 0.0) > items:
            return None
        place, bound = edited_place(evidence.torch.loader), waits_at_most(evidence)
        return self.finding(
            title="Each sample is made again in every epoch",
            text=f"{named(evidence.torch.loader)} makes each of its items again in every epoch."
            f"{kept_said(evidence, kept)}",
            bound=bound,
            bound_basis=UNTRIED if bound is None else "no step waits for its batch",
            where=() if place is None else (place,),
            advice=KEEP_ADVICE,
            snippet=KEPT,
            data=kept,
            equivalence=Equivalence.EXACT,
            rewritable=place is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Make each item once and keep it, or what it begins with ahead of anything random."""
        keep_items(script, finding.where[0], finding.data)


def _text(evidence: Evidence, loader: Loader, own: dict[str, float]) -> str:
    place = f" ({at(loader.item)})" if loader.item is not None else ""
    parts = [f"{ms(own[ITEM])} for its items{place}"]
    if COLLATE in own:
        parts.append(f"{ms(own[COLLATE])} to collate them")
    who = "One process takes" if loader.workers else "Each step takes"
    text = f"{named(loader)}: {who[0].lower() + who[1:]} {' and '.join(parts)}"
    per = evidence.loop.batch_size
    if per:
        text += f", {ms(own[ITEM] / per)} a sample"
    hot = [] if loader.workers else _functions(evidence)
    if not hot:
        return text + "."
    named_ones = ", ".join(
        f"{percent(each.share)} in `{each.name}` ({at(Site(each.file, each.line))})" for each in hot
    )
    return f"{text}. Of the loop's time on the main thread: {named_ones}."


def _functions(evidence: Evidence) -> list[FunctionCost]:
    """The user's functions most often found running, without those of the step itself.

    Samples of the stack name a method with its class, places of a call do not.
    """
    step = _of_the_step(evidence.torch)
    if evidence.loop.where is not None:
        step.add(evidence.loop.where.function)
    found = [
        each
        for each in evidence.functions
        if each.thread == "main" and each.name.rpartition(".")[2] not in step
    ]
    return sorted(found, key=lambda each: -each.share)[:MOST_NAMED]


def _of_the_step(torch: Torch) -> set[str]:
    names = {"forward", "<module>"}
    calls = torch.calls
    if calls is not None:
        sites = (calls.forward, calls.backward, calls.step, calls.zero_grad)
        names |= {site.function for site in sites if site is not None}
    return names


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
