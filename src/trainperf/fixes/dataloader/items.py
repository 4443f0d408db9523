"""Work for every sample, in `__getitem__`: made once and kept; files that are opened anew."""

from __future__ import annotations

import ast
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import REAL_SHARE
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
    costs_said,
    exact,
    in_tensors,
    named,
    ranks,
    stage_seconds,
)
from trainperf.fixes.torch_step._source import refuse_if_named
from trainperf.model import Equivalence, Evidence, Finding, Site, is_taken
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, starred
from trainperf.source.bodies import method_of
from trainperf.source.effects import changing, changing_attribute
from trainperf.source.module import inside
from trainperf.source.statements import names_in, parameters

FOR_ITEMS = """\
# once, before training: what is the same in every epoch
prepared = [prepare(sample) for sample in samples]
torch.save(prepared, "prepared.pt")

# then __getitem__ only fetches, and draws what is random
def __getitem__(self, index):
    return augment(self.prepared[index])"""

FOR_TRANSFORMS = """\
# once, before training, `dataset` having the transforms only that draw nothing
samples, labels = zip(*dataset)
prepared = TensorDataset(torch.stack(samples), torch.tensor(labels))
# what is random then in the loop, for a whole batch: augment(samples)"""


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
        if in_tensors(loader) or ((not kept) if items is None else (collate > items)):
            return None  # from memory into memory; see `torch_whole_batches`
        place = _edited_place(evidence) if kept else loader.item or loader.where
        return Cause(
            title="Each sample takes long to make",
            text=_text(evidence) + _kept_said(evidence, kept),
            saves=Saving(
                "items and collating cost nothing",
                ratio=None if items is None else lambda: bound_without(evidence, items + collate),
                of="input",
            ),
            where=() if place is None else (place,),
            advice="Make what is the same in every epoch once, and keep it."
            if kept
            else f"Prepare once what {'is' if loader.item else 'its transforms make'} the same in "
            "every epoch; do the rest for whole batches.",
            snippet="" if kept else FOR_ITEMS if loader.item else FOR_TRANSFORMS,
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
        if changed := changing([module, *others], owner, fixed or [function]):
            raise CannotRewrite(f"{changed} changes after the dataset was built")  # in no trial
        if data["store"] == "files":
            built = method_of(owner, "__init__")
            if built is None:
                raise CannotRewrite("its class has no __init__ that could say where items are kept")
            for line in _folder(script, site.file):
                script.insert_first(at_statement(site, built), line)
        once = script.free_name(site.file, "made_once")
        if data["whole"]:
            script.decorate(site, once)
        else:
            name = script.free_name(site.file, "made_item")
            move_part(script, site, fixed, once, name, parameters(function))
        _add_helper(script, site.file, once, data, copied=data["copied"] or not data["whole"])


def _text(evidence: Evidence) -> str:
    """What items take."""
    loader, items = evidence.torch.loader, stage_seconds(evidence).get(ITEM)
    if items is None:
        return f"{named(loader)} makes each of its items again in every epoch."
    who, batch = "one process" if loader.workers else "each step", evidence.loop.batch_size
    each = f", {ms(items / batch)} a sample" if batch else ""
    return f"{named(loader)}: {who} takes {costs_said(evidence)}{each}."


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


def _wrap_dataset(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Put the dataset of the loader built at `site` into one that keeps its items."""
    DATA_LOADER.check(script, site)
    refuse_if_named(script, site.file, ".dataset.")
    if changed := changing_attribute([script.source(site.file).module], None, HELD):
        raise CannotRewrite(f"{changed} changes after the dataset was built")
    place = script.argument(site, 0, "dataset")
    if place is None:
        raise CannotRewrite("the call does not write out its dataset")
    once, cls = (script.free_name(site.file, name) for name in ("made_once", "MadeOnce"))
    script.replace_call(place, f"{cls}({script.expression(place)})")
    _add_helper(script, site.file, once, data, copied=data["copied"], wrapper=cls)


def _folder(script: Script, file: str) -> list[str]:
    names = ("tempfile", "atexit", "shutil")
    return FOLDER.format(**{name: script.module_name(file, name) for name in names}).splitlines()


def _add_helper(
    script: Script, file: str, once: str, data: dict[str, Any], *, copied: bool, wrapper: str = ""
) -> None:
    """Write the decorator `once`, and the class `wrapper` of a dataset whose items it keeps."""
    in_files = data["store"] == "files"
    used = ["os", "pickle"] if in_files else ["copy"] * copied
    names = {name: script.module_name(file, name) for name in ("functools", "numbers", *used)}
    text = IN_FILES.format(name=once, **names) if in_files else in_memory(once, **names)
    if wrapper:
        lines = _folder(script, file) if in_files else []
        folder = "".join(f"        {line}\n" for line in lines)
        torch = script.module_name(file, "torch")
        text += WRAPPER.format(torch=torch, folder=folder, name=once, cls=wrapper)
    script.insert_function(file, text)


REPEATED = 0.5
"""Share of the calls given a file that others were given, from which items share their files."""

HANDLES = (
    "h5py.File", "lmdb.open", "pyarrow.parquet.ParquetFile", "tarfile.open", "zipfile.ZipFile",
)  # fmt: skip
"""What opens a file and hands out a part of it at a time; the others read it to its end."""

WITH_MODE, READS = ("h5py.File", "tarfile.open", "zipfile.ZipFile"), ("r", "r:", "r:*")
"""Those of which the second argument is a mode, and the modes that only read."""


OPEN_ONCE = """\
def __getitem__(self, index):  # self.process is None at first
    if self.process != os.getpid():  # each worker opens the file itself, when it needs it
        self.file, self.process = h5py.File(self.path), os.getpid()
    return self.file["x"][index]"""

READ_ONCE = """\
def __init__(self, path):
    self.rows = pandas.read_parquet(path)  # once, not in __getitem__"""


class TorchFilePerItem(Fix):
    """Open a file once, not for every item.

    Why slow: Opening an HDF5 file, an archive, a Parquet file or a database reads and parses its
    table of contents, and closing it drops what was cached. An item then takes a few kilobytes of
    it. What reads the whole file (`read_parquet`, `numpy.load`) does so for each item.
    Changes: The file is opened by the first item that a process makes, and stays open for the next
    ones. Each worker opens its own: handles that are shared with a forked worker corrupt what it
    reads.
    When not: When the file changes while training, or each item has a file of its own: then only
    what is done with its content can be saved. A table that is read whole needs the memory for it.
    """

    usual = 1.5

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a file that items open."""
        loader = evidence.torch.loader
        shared = [access for access in loader.accesses if access.repeated >= REPEATED]
        access = max(shared, key=lambda access: access.share, default=None)
        if access is None or access.share < REAL_SHARE:
            return None
        whole = access.name not in HANDLES
        place = f" ({at(loader.item)})" if loader.item is not None else ""
        return Cause(
            title=f"Every item {'reads a whole file' if whole else 'opens a file'}",
            text=f"{named(loader)}{place} calls `{access.name}` for each item: "
            f"{ms(access.seconds)}, {percent(access.share)} of what an item takes.",
            saves=Saving(
                "items cost nothing; what is read of a file just opened is slower too",
                ratio=lambda: bound_without(evidence, stage_seconds(evidence).get(ITEM, 0.0)),
                of="input",
            ),
            where=() if loader.item is None else (loader.item,),
            advice="Read it once, where the dataset is built."
            if whole
            else "Open it once in each process, when its first item is made.",
            snippet=READ_ONCE if whole else OPEN_ONCE,
            data={"name": access.name},
            rewritable=not whole and loader.item is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Keep the file open in each process that reads it.

        What closes it goes, where that is a `with` around the call or a statement of its own:
        closed elsewhere, the next item fails, and so does the trial.
        """
        site, name = finding.where[0], finding.data["name"]
        function, module = script.definition(site), script.linked(site.file)
        opened = script.free_name(site.file, "kept_open")
        calls = [node for node in inside(function) if isinstance(node, ast.Call)]
        found = [call for call in calls if module.name(call.func) == name]
        if len(found) != 1:
            raise CannotRewrite(f"`{name}` is called in {len(found)} places of {function.name}")
        call, parent = found[0], module.parent(found[0])
        given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        own = set(module.opened(function).bindings) - {"self"}
        if any(own & names_in(value) for value in given):
            raise CannotRewrite("which file is opened depends on the item")
        mode = argument(call, "mode", 1)
        writes = starred(call) or (mode is not None and module.constant(mode) not in READS)
        if name in WITH_MODE and writes:
            # what is written is whole only when it is closed, which no trial looks at
            raise CannotRewrite("the file is not opened to be read only")
        closes = (
            f"{ast.unparse(parent.targets[0])}.close()" if isinstance(parent, ast.Assign) else ""
        )
        closing = [
            script.site_of(site, node)
            for node in calls
            if ast.unparse(node) == closes and isinstance(module.parent(node), ast.Expr)
        ]
        functools, os = (script.module_name(site.file, name) for name in ("functools", "os"))
        texts = [script.source(site.file).text_of(value) for value in given]
        kept = f"{opened}({', '.join([f'{os}.getpid()', *texts])})"
        if isinstance(parent, ast.withitem):
            kept = f"{script.module_name(site.file, 'contextlib')}.nullcontext({kept})"
        script.replace_call(script.site_of(site, call), kept)
        script.remove_statements(closing)
        names = {"functools": functools, "name": opened, "open": ast.unparse(call.func)}
        script.insert_function(site.file, KEPT_OPEN.format(**names))


KEPT_OPEN = '''\
@{functools}.cache
def {name}(process, *given, **named):
    """Open a file once in each process, and keep it open."""
    return {open}(*given, **named)
'''
