"""Files that items open anew, and columns of tables that they look up anew."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import REAL_SHARE
from trainperf.fixes.common.repeating import class_of_items
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.dataloader._loader import ITEM, bound_without, named, stage_seconds
from trainperf.model import Access, Evidence, Finding, Loader
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, starred
from trainperf.source.module import Module, inside
from trainperf.source.scopes import Function
from trainperf.source.statements import names_in, parameters

REPEATED = 0.5
"""Share of the calls given a file that others were given, from which items share their files."""

WHOLE = ("numpy.load", "pandas.read_csv", "pandas.read_parquet", "pyarrow.parquet.read_table")
"""What reads a file to its end."""

HANDLES = (
    "h5py.File", "lmdb.open", "pyarrow.parquet.ParquetFile", "tarfile.open", "zipfile.ZipFile",
)  # fmt: skip
"""What opens a file and hands out a part of it at a time."""

WITH_MODE, READS = ("h5py.File", "tarfile.open", "zipfile.ZipFile"), ("r", "r:", "r:*")
"""Those of which the second argument is a mode, and the modes that only read."""


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
    Each worker opens its own: handles that are shared with a forked worker corrupt what it reads.

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
        functools, os = (script.module_name(site.file, one) for one in ("functools", "os"))
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
    columns are taken. Columns that the dataset keeps as attributes become lists.

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
        """Look up one row for each item, or make lists of columns that are attributes."""
        site, data = finding.where[0], finding.data
        function, module = script.definition(site), script.linked(site.file)
        taken = list(_elements(module, function, [f"self.{name}" for name in data["tables"]]))
        bindings = module.opened(function).bindings
        fixed = {name for name in parameters(function) if len(bindings.get(name, ())) == 1}
        shared = len(taken) > 1 and len({row for _, _, row in taken}) == 1
        if shared and names_in(taken[0][0].slice) <= fixed:
            row = script.free_name(site.file, "row", "example", "taken")
            script.insert_first(site, f"{row} = {taken[0][2]}")
            taken = [(element, key, row) for element, key, _ in taken]
        for element, key, row in taken:
            text = script.expression(script.site_of(site, key))
            script.replace_call(script.site_of(site, element), f"{row}[{text}]")
        if taken:
            return
        columns = [f"self.{name}" for name in data["columns"]]
        kept = [
            script.site_of(site, node.value)
            for node in ast.walk(class_of_items(module, function))
            if isinstance(node, ast.Assign)
            and any(ast.unparse(target) in columns for target in node.targets)
        ]
        if not kept:
            raise CannotRewrite("where items take their columns cannot be seen")
        for there in kept:
            script.replace_call(there, f"list({script.expression(there)})")


def _elements(
    module: Module, function: Function, tables: Collection[str]
) -> Iterator[tuple[ast.Subscript, ast.expr, str]]:
    """Yield the elements of columns, `self.table["text"][index]`, each with its column and row."""
    for node in inside(function):
        match node:
            case ast.Subscript(value=ast.Subscript(value=table, slice=key), slice=index):
                known = ast.unparse(table) in tables and isinstance(module.constant(key), str)
                if known and not isinstance(index, ast.Slice):
                    yield node, key, f"{ast.unparse(table)}[{ast.unparse(index)}]"
