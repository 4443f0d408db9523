"""Work for every sample, in `__getitem__`: what is the same in each epoch is made once and kept."""

from __future__ import annotations

import ast
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.repeating import (
    INSIDE,
    MOST,
    at_statement,
    class_of_items,
    fixed_statements,
    in_memory,
    move_part,
)
from trainperf.fixes.common.words import at, ms, percent, size
from trainperf.fixes.dataloader._loader import (
    COLLATE,
    DATA_LOADER,
    ITEM,
    bound_without,
    exact,
    named,
    ranks,
    stage_seconds,
)
from trainperf.fixes.torch_step._source import refuse_if_named
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    FunctionCost,
    Site,
    is_taken,
)
from trainperf.rewrite import Script
from trainperf.source.bodies import method_of
from trainperf.source.effects import changing, changing_attribute
from trainperf.source.statements import parameters

MOST_NAMED = 3
"""Functions that are named beside items which take long."""

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


class TorchItemWork(Fix):
    """Do less for each sample while training.

    Why slow: `__getitem__` runs for every sample of every epoch. Tokenising, decoding, resizing
    and loops in Python that could be done once, or for a whole batch in one array operation, are
    paid for each time.
    Changes: What is the same in every epoch is made once, in the first, and kept: in memory, or
    where there are workers in temporary files that they share. Items that come out the same when
    made again are kept whole (a library's dataset is put into one that keeps them); of others,
    what `__getitem__` does ahead of anything random. By hand more can be stored (arrays,
    pre-tokenised data), and what is random be done for whole batches.
    When not:
    - When what is kept would not fit the memory or the disk, or there is one epoch only. Other
      datasets of the same class (validation) are kept as well.
    - When the dataset changes while training (`dataset.epoch = 3`, a buffer that grows): no edit
      is written where the source shows that.
    """

    equivalence = Equivalence.NUMERICS
    usual = 1.6
    warm_up_epochs = 1  # the first one makes the items
    try_before = (
        "torch_workers",
        "torch_file_per_item",
        "s3_request_latency",
        "storage_small_files",
        "storage_throughput",
    )

    def look(self, evidence: Evidence) -> Cause | None:
        """Find items that take longer than collating, or were not timed and can be kept."""
        loader, timed, kept = evidence.torch.loader, stage_seconds(evidence), _keepable(evidence)
        items, collate = timed.get(ITEM), timed.get(COLLATE, 0.0)
        if (not kept) if items is None else (collate > items):
            return None
        place = _edited_place(evidence) if kept else loader.item
        return Cause(
            title="Each sample takes long to make",
            text=_text(evidence, timed) + _kept_said(evidence, kept),
            saves=Saving(
                "items and collating cost nothing",
                ratio=None if items is None else lambda: bound_without(evidence, items + collate),
                of="input",
            ),
            where=() if place is None else (place,),
            advice="Make what is the same in every epoch once, and keep it."
            if kept
            else "Prepare once what is the same in every epoch; do the rest for whole batches.",
            snippet=KEPT if kept else FOR_ITEMS,
            data=kept,
            equivalence=Equivalence.EXACT if kept else None,
            rewritable=bool(kept),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Make each item once and keep it, or what it begins with ahead of anything random.

        Raises `CannotRewrite` where the source does not show that these stay the same.
        """
        site, data = finding.where[0], finding.data
        if data.get("wrapped"):
            _wrap_dataset(script, site, data)
            return
        function, module = script.definition(site), script.linked(site.file)
        owner = class_of_items(module, function)
        fixed = [] if data["whole"] else fixed_statements(module, function)
        if not data["whole"] and not fixed:
            raise CannotRewrite("nothing costly comes ahead of what may be random in __getitem__")
        others = [script.source(name).module for name in data["files"] if name != site.file]
        _refuse(changing([module, *others], owner, fixed or [function]))
        if data["store"] == "files":
            _make_folder(script, site, owner)
        once = script.free_name(site.file, "made_once")
        if data["whole"]:
            script.decorate(site, once)
        else:
            name = script.free_name(site.file, "made_item")
            move_part(script, site, fixed, once, name, parameters(function))
        _add_helper(script, site.file, once, data, copied=data["copied"] or not data["whole"])


def _text(evidence: Evidence, timed: dict[str, float]) -> str:
    """What items take, and the functions that run meanwhile."""
    loader, batch = evidence.torch.loader, evidence.loop.batch_size
    text = f"{named(loader)} makes each of its items again in every epoch"
    if ITEM in timed:
        place = f" ({at(loader.item)})" if loader.item is not None else ""
        text = f"{named(loader)}: {'one process' if loader.workers else 'each step'} takes "
        text += f"{ms(timed[ITEM])} for its items{place}"
        text += f" and {ms(timed[COLLATE])} to collate them" if COLLATE in timed else ""
        text += f", {ms(timed[ITEM] / batch)} a sample" if batch else ""
    functions = [] if loader.workers else _functions(evidence)
    if not functions:
        return f"{text}."
    shares = ", ".join(
        f"{percent(cost.share)} in `{cost.name}` ({at(Site(cost.file, cost.line))})"
        for cost in functions
    )
    return f"{text}. Of the loop's time on the main thread: {shares}."


def _functions(evidence: Evidence) -> list[FunctionCost]:
    """The user's functions most often found running, without those of the step itself.

    Samples of the stack name a method with its class, places of a call do not.
    """
    step, calls, loop = {"forward", "<module>"}, evidence.torch.calls, evidence.loop.where
    sites = [calls.forward, calls.backward, calls.step, calls.zero_grad] if calls else []
    step |= {site.function for site in (*sites, loop) if site is not None}
    found = [
        cost
        for cost in evidence.functions
        if cost.thread == "main" and cost.name.rpartition(".")[2] not in step
    ]
    return sorted(found, key=lambda cost: -cost.share)[:MOST_NAMED]


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


def _keepable(evidence: Evidence) -> dict[str, Any]:
    """What a finding's data must hold for its items to be kept; empty where they cannot.

    `store` is "memory", or "files" where there are workers or memory is short; `whole` says that
    items came out the same when made again, `copied` that what takes them may write into them
    (PyTorch's own collate function copies them into a batch).
    """
    loader, place, held = evidence.torch.loader, _edited_place(evidence), _held_bytes(evidence)
    if loader.iterable or held is None or place is None or evidence.loop.epochs == 1:
        return {}
    room = evidence.facts.get("temporary_free")
    if loader.workers == 0 and held < MOST * evidence.machine.memory_available:
        store = "memory"
    elif isinstance(room, int | float) and held < MOST * room:
        store = "files"
    else:
        return {}
    collates = [stage.arguments.get("collate_fn") for stage in evidence.stages]
    return {
        "store": store,
        "whole": bool(loader.repeats),
        "copied": "default_collate" not in collates,
        "files": [loader.where.file] if loader.where is not None else [],
        "wrapped": place != loader.item,
    }


def _edited_place(evidence: Evidence) -> Site | None:
    """Where items are kept: the user's `__getitem__`, or the loader of a library's dataset.

    A library's is put into another that keeps its items, where these came out the same when made
    again. None where there is neither.
    """
    loader = evidence.torch.loader
    if loader.item is not None and loader.item.function.rpartition(".")[2] == "__getitem__":
        return loader.item
    return loader.where if exact(loader.where) and loader.repeats else None


def _held_bytes(evidence: Evidence) -> float | None:
    """The bytes that all items take at most when kept, None where that is not known."""
    for stage in evidence.stages if is_taken(evidence.stages_) else ():
        if stage.op == ITEM and stage.element_bytes and (stage.cardinality or 0) > 0:
            inside = 1 if evidence.torch.loader.repeats else INSIDE
            return float(stage.element_bytes * inside * (stage.cardinality or 0) * ranks(evidence))
    return None


def _kept_said(evidence: Evidence, data: dict[str, Any]) -> str:
    """What keeping the items takes, as a sentence; "" where they are not kept."""
    held = _held_bytes(evidence)
    if not data or held is None:
        return ""
    room = f"{size(evidence.machine.memory_available)} of memory free"
    if data["store"] == "files":
        room = f"{size(evidence.facts['temporary_free'])} free for temporary files"
    same = "They come out the same when made again" if data["whole"] else "Part of it is random"
    most = "" if data["whole"] else "at most "
    return f" {same}; kept from the first epoch on, they take {most}{size(held)} of the {room}."


def _refuse(changed: str) -> None:
    """Raise `CannotRewrite` where items may change in a later epoch than a trial runs."""
    if changed:
        raise CannotRewrite(f"{changed} changes after the dataset was built, so items may as well")


def _wrap_dataset(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Put the dataset of the loader built at `site` into one that keeps its items."""
    DATA_LOADER.check(script, site)
    refuse_if_named(script, site.file, ".dataset.")
    _refuse(changing_attribute([script.source(site.file).module], None, HELD))
    place = script.argument(site, 0, "dataset")
    if place is None:
        raise CannotRewrite("the call does not write out its dataset")
    once, cls = (script.free_name(site.file, name) for name in ("made_once", "MadeOnce"))
    script.replace_call(place, f"{cls}({script.expression(place)})")
    _add_helper(script, site.file, once, data, copied=data["copied"], wrapper=cls)


def _make_folder(script: Script, site: Site, owner: ast.ClassDef) -> None:
    built = method_of(owner, "__init__")
    if built is None:
        raise CannotRewrite("its class has no __init__ that could say where items are kept")
    for line in _folder(script, site.file):
        script.insert_first(at_statement(site, built), line)


def _folder(script: Script, file: str) -> list[str]:
    return FOLDER.format(**_modules(script, file, "tempfile", "atexit", "shutil")).splitlines()


def _modules(script: Script, file: str, *names: str) -> dict[str, str]:
    return {name: script.module_name(file, name) for name in names}


def _add_helper(
    script: Script, file: str, once: str, data: dict[str, Any], *, copied: bool, wrapper: str = ""
) -> None:
    """Write the decorator `once`, and the class `wrapper` of a dataset whose items it keeps."""
    if data["store"] == "files":
        names = _modules(script, file, "functools", "numbers", "os", "pickle")
        text = IN_FILES.format(name=once, **names)
    else:
        names = _modules(script, file, "functools", "numbers", *(["copy"] if copied else []))
        text = in_memory(once, **names)
    if wrapper:
        lines = _folder(script, file) if data["store"] == "files" else []
        folder = "".join(f"        {line}\n" for line in lines)
        torch = script.module_name(file, "torch")
        text += WRAPPER.format(torch=torch, folder=folder, name=once, cls=wrapper)
    script.insert_function(file, text)
