"""Files that items open anew."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import REAL_SHARE
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.dataloader._loader import ITEM, bound_without, named, stage_seconds
from trainperf.model import Evidence, Finding
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, starred
from trainperf.source.module import inside
from trainperf.source.statements import names_in

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
