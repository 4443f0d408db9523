"""Items that take long to make: work for each sample, files opened and columns looked up anew."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import REAL_SHARE
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
    Access,
    Equivalence,
    Evidence,
    Finding,
    FunctionCost,
    Loader,
    Site,
    is_taken,
)
from trainperf.rewrite import Script
from trainperf.source.module import Module, inside
from trainperf.source.scopes import Function
from trainperf.source.statements import names_in, parameters

REPEATED = 0.5
"""Share of the calls given a file that others were given, from which items share their files."""

MOST_NAMED = 3
"""Functions that are named beside items which take long."""


# ------------------------------------------------------------------ how items get their data


def _dearest(evidence: Evidence, names: Collection[str]) -> Access | None:
    """The access of such a name that items spend most on; None if each has a file of its own."""
    found = [
        access
        for access in evidence.torch.loader.accesses
        if access.name in names and access.repeated >= REPEATED
    ]
    return max(found, key=lambda access: access.share, default=None)


def _item_saving(evidence: Evidence, share: float, basis: str) -> Saving:
    """What is saved if items take so large a share of their time less."""

    def ratio() -> float:
        timed = stage_seconds(evidence)
        if ITEM not in timed:
            raise NotMeasured("what items take was not timed")
        return bound_without(evidence, timed[ITEM] * share)

    return Saving(basis, ratio=ratio, of="input")


def _calls_said(loader: Loader, access: Access, what: str) -> str:
    place = f" ({at(loader.item)})" if loader.item is not None else ""
    return (
        f"{named(loader)}{place} {what} for each item: {ms(access.seconds)}, "
        f"{percent(access.share)} of what an item takes."
    )


WHOLE = (
    "numpy.load",
    "pandas.read_csv",
    "pandas.read_parquet",
    "pyarrow.parquet.read_table",
)
"""What reads a file to its end."""

HANDLES = (
    "h5py.File",
    "lmdb.open",
    "pyarrow.parquet.ParquetFile",
    "tarfile.open",
    "zipfile.ZipFile",
)
"""What opens a file and hands out a part of it at a time."""

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

    ## Why it is slow
    Opening an HDF5 file, an archive, a Parquet file or a database reads and parses its table
    of contents, and closing it drops what was cached. An item then takes a few kilobytes of it.
    What reads the whole file (`read_parquet`, `numpy.load`) does so for each item.

    ## What changes
    The file is opened by the first item that a process makes, and stays open for the next ones.
    Each worker opens it for itself: handles that are shared with a forked worker corrupt what
    it reads. What is read of the file is the same.

    ## When not to
    When the file changes while training, or each item has a file of its own: then only what is
    done with its content can be saved. A table that is read whole needs the memory for it.
    """

    framework = "torch"
    category = "input"
    usual = 1.5

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a file that items open."""
        access, loader = _dearest(evidence, (*HANDLES, *WHOLE)), evidence.torch.loader
        if access is None or access.share < REAL_SHARE:
            return None
        whole = access.name in WHOLE
        often = "" if access.calls < 1.5 else f" {access.calls:.0f} times"
        return Cause(
            title=f"Every item {'reads a whole file' if whole else 'opens a file'}",
            text=_calls_said(loader, access, f"calls `{access.name}`{often}"),
            saves=_item_saving(
                evidence, 1, "items cost nothing; what is read of a file just opened is slower too"
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
        """Keep the file open in each process that reads it."""
        _open_once(script, finding.where[0], finding.data["name"])


def _open_once(script: Script, site: Site, name: str) -> None:
    """Have the `__getitem__` whose head is at `site` find open what it opens with `name`.

    What closes it goes, where that is a `with` around the call or a statement of its own: closed
    elsewhere, the next item fails, and so does the trial. Raises `CannotRewrite` where it does not
    open one file, the same for all items.
    """
    function, opened = script.definition(site), script.free_name(site.file, "kept_open")
    module = script.linked(site.file)
    calls = [node for node in inside(function) if isinstance(node, ast.Call)]
    found = [call for call in calls if module.name(call.func) == name]
    if len(found) != 1:
        raise CannotRewrite(f"`{name}` is called in {len(found)} places of {function.name}")
    call, parent = found[0], module.parent(found[0])
    given = [*call.args, *call.keywords]
    own = set(module.opened(function).bindings) - {"self"}
    if any(own & names_in(argument) for argument in given):
        raise CannotRewrite("which file is opened depends on the item")
    held = ast.unparse(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
    closing = [
        closed
        for closed in calls
        if ast.unparse(closed) == f"{held}.close()" and isinstance(module.parent(closed), ast.Expr)
    ]
    context = isinstance(parent, ast.withitem)
    modules = ["functools", "os", *(["contextlib"] if context else [])]
    functools, os, *contextlib = (script.module_name(site.file, each) for each in modules)
    texts = [script.source(site.file).text_of(argument) for argument in given]
    kept = f"{opened}({', '.join([f'{os}.getpid()', *texts])})"
    value = f"{contextlib[0]}.nullcontext({kept})" if context else kept
    script.replace_call(script.site_of(site, call), value)
    script.remove_statements([script.site_of(site, closed) for closed in closing])
    script.insert_function(
        site.file,
        f"@{functools}.cache\ndef {opened}(process, *given, **named):\n"
        f'    """Open a file once in each process, and keep it open."""\n'
        f"    return {ast.unparse(call.func)}(*given, **named)\n",
    )


ROW_FIRST = """\
row = self.table[index]  # not self.table["text"][index]
text, label = row["text"], row["label"]"""

AS_LISTS = """\
self.texts = list(dataset["text"])  # a column alone is a view: each element is read anew"""


class TorchColumnPerItem(Fix):
    """Take the row of an item, not its columns.

    ## Why it is slow
    `dataset["text"]` of Hugging Face's `datasets` makes a view of the column (before version 4 it
    reads all of it), and `[index]` looks an element of it up. That is done for each column and
    each item; a row is looked up once.

    ## What changes
    `self.table["text"][index]` becomes `self.table[index]["text"]`, of one row where several
    columns are taken. Columns that the dataset keeps as attributes become lists when it is
    built. The values are the same.

    ## When not to
    When a row has columns that are dear to decode (images, audio) and the item needs none of
    them: `select_columns` leaves them out. Lists hold their whole column in memory.
    """

    framework = "torch"
    category = "input"
    usual = 1.5

    def look(self, evidence: Evidence) -> Cause | None:
        """Find elements of columns that items look up."""
        access, loader = _dearest(evidence, ("column",)), evidence.torch.loader
        if access is None:
            return None
        held = access.tables or access.columns
        return Cause(
            title="Every item looks its columns up anew",
            text=_calls_said(loader, access, f"takes {access.calls:.0f} elements of columns"),
            saves=_item_saving(evidence, access.share, "columns cost nothing"),
            where=() if loader.item is None else (loader.item,),
            advice="Take the row and then its fields, or lists of the columns.",
            snippet=ROW_FIRST if access.tables else AS_LISTS,
            data={"tables": list(access.tables), "columns": list(access.columns)},
            rewritable=bool(held) and loader.item is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Look up one row for each item."""
        _take_rows(script, finding.where[0], finding.data["tables"], finding.data["columns"])


def _take_rows(
    script: Script, site: Site, tables: Collection[str], columns: Collection[str]
) -> None:
    """Have the `__getitem__` whose head is at `site` take its row of a table, not its columns.

    Attributes of the dataset that are `columns` become lists in its `__init__`. Raises
    `CannotRewrite` where neither is plain in the source.
    """
    function, module = script.definition(site), script.linked(site.file)
    taken = list(_elements(module, function, tables))
    if taken:
        rows = {row for _, _, row in taken}
        bindings = module.opened(function).bindings
        fixed = {name for name in parameters(function) if len(bindings.get(name, ())) == 1}
        shared = len(taken) > 1 and len(rows) == 1 and names_in(taken[0][0].slice) <= fixed
        free = script.free_name(site.file, "row", "example", "taken")
        for element, key, row in taken:
            text = script.expression(script.site_of(site, key))
            script.replace_call(script.site_of(site, element), f"{free if shared else row}[{text}]")
        if shared:
            script.insert_first(site, f"{free} = {taken[0][2]}")
        return
    held = _assigned(class_of_items(module, function), columns)
    if not held:
        raise CannotRewrite("where items take their columns cannot be seen")
    for value in held:
        there = script.site_of(site, value)
        script.replace_call(there, f"list({script.expression(there)})")


def _elements(
    module: Module, function: Function, tables: Collection[str]
) -> Iterator[tuple[ast.Subscript, ast.expr, str]]:
    """Yield the elements of columns, `self.table["text"][index]`, each with its column and row."""
    for node in inside(function):
        match node:
            case ast.Subscript(value=ast.Subscript(value=table, slice=key), slice=index):
                name = ast.unparse(table)
                known = name.removeprefix("self.") in tables and name.startswith("self.")
                column = isinstance(module.constant(key), str)
                if known and column and not isinstance(index, ast.Slice):
                    yield node, key, f"{name}[{ast.unparse(index)}]"


def _assigned(owner: ast.ClassDef, columns: Collection[str]) -> list[ast.expr]:
    """What is assigned to the attributes that are columns, each of them once."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(owner):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            name = ast.unparse(target).removeprefix("self.")
            if name in columns and isinstance(target, ast.Attribute):
                found.setdefault(name, []).append(node.value)  # type: ignore[attr-defined]
    return [values[0] for values in found.values() if len(values) == 1]


# --------------------------------------------------------------------------- work for each sample

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

    def look(self, evidence: Evidence) -> Cause | None:
        """Find items that take longer than collating, or were not timed and can be kept."""
        loader, timed, kept = evidence.torch.loader, stage_seconds(evidence), keepable(evidence)
        items, collate = timed.get(ITEM), timed.get(COLLATE, 0.0)
        if (not kept) if items is None else (collate > items):
            return None
        place = _edited_place(loader) if kept else loader.item
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
        """Make each item once and keep it, or what it begins with ahead of anything random."""
        keep_items(script, finding.where[0], finding.data)


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


def keepable(evidence: Evidence) -> dict[str, Any]:
    """Return what a finding's data must hold for its items to be kept; empty where they cannot.

    `store` is "memory", or "files" where there are workers or memory is short; `whole` says that
    items came out the same when made again, `copied` that what takes them may write into them.
    """
    loader = evidence.torch.loader
    held = _held_bytes(evidence)
    if loader.iterable or held is None or evidence.loop.epochs == 1:
        return {}
    if _edited_place(loader) is None:
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
        # PyTorch's own collate function copies the items into a batch
        "copied": not any(
            stage.arguments.get("collate_fn") == "default_collate" for stage in evidence.stages
        ),
        "files": seen,
        "wrapped": _edited_place(loader) != loader.item,
    }


def _edited_place(loader: Loader) -> Site | None:
    """Return where items are kept: the user's `__getitem__`, or the loader of a library's dataset.

    A library's is put into another that keeps its items, where these came out the same when made
    again. None where there is neither.
    """
    if loader.item is not None and loader.item.function.rpartition(".")[2] == "__getitem__":
        return loader.item
    return loader.where if exact(loader.where) and loader.repeats else None


def _held_bytes(evidence: Evidence) -> float | None:
    """Return the bytes that all items take at most when kept, None where that is not known."""
    for stage in evidence.stages if is_taken(evidence.stages_) else ():
        if stage.op == ITEM and stage.element_bytes and (stage.cardinality or 0) > 0:
            inside = 1 if evidence.torch.loader.repeats else INSIDE
            each = stage.element_bytes * inside
            return float(each * (stage.cardinality or 0) * ranks(evidence))
    return None


def _kept_said(evidence: Evidence, data: dict[str, Any]) -> str:
    """Say what keeping the items takes, as a sentence; "" where they are not kept."""
    held = _held_bytes(evidence)
    if not data or held is None:
        return ""
    room = f"{size(evidence.machine.memory_available)} of memory free"
    if data["store"] == "files":
        room = f"{size(evidence.facts['temporary_free'])} free for temporary files"
    same = "They come out the same when made again" if data["whole"] else "Part of it is random"
    most = "" if data["whole"] else "at most "
    return f" {same}; kept from the first epoch on, they take {most}{size(held)} of the {room}."


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
    DATA_LOADER.check(script, site)
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
