"""A file that is opened anew for every sample."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.dataloader._loader import dearest, named
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.module import Module, inside
from trainperf.source.scopes import Function
from trainperf.source.statements import names_in

WHOLE = (
    "numpy.load",
    "pandas.read_csv",
    "pandas.read_parquet",
    "pyarrow.parquet.read_table",
)
"""What reads a file to its end."""

SNIPPET = """\
def __getitem__(self, index):  # self.process is None at first
    if self.process != os.getpid():  # each worker opens the file itself, when it needs it
        self.file, self.process = h5py.File(self.path), os.getpid()
    return self.file["x"][index]"""

FOR_WHOLE = """\
def __init__(self, path):
    self.rows = pandas.read_parquet(path)  # once, not in __getitem__"""

_HANDLES = {
    "h5py.File": ("r",),
    "lmdb.open": (),
    "pyarrow.parquet.ParquetFile": (),
    "tarfile.open": ("r", "r:", "r:*"),
    "zipfile.ZipFile": ("r",),
}
"""What opens a file and hands out a part of it at a time, with the modes that only read."""

_KEPT = "kept_open"


class FilePerItem(Fix):
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
    equivalence = Equivalence.EXACT
    usual = 1.5

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a file that items wait to be opened, where the loop waits for the items."""
        found = dearest(evidence, (*_HANDLES, *WHOLE), cold=True)
        if found is None:
            return None
        access, bound = found
        loader = evidence.torch.loader
        whole = access.name in WHOLE
        place = f" ({at(loader.item)})" if loader.item is not None else ""
        often = "" if access.calls < 1.5 else f" {access.calls:.0f} times"
        does = "reads a whole file" if whole else "opens a file"
        return self.finding(
            title=f"Every item {does}",
            text=f"{named(loader)}{place} calls `{access.name}`{often} for each item: "
            f"{ms(access.seconds)}, {percent(access.share)} of what an item takes.",
            bound=bound,
            bound_basis="items cost nothing; what is read of a file just opened is slower too",
            where=() if loader.item is None else (loader.item,),
            advice="Read it once, where the dataset is built."
            if whole
            else "Open it once in each process, when its first item is made.",
            snippet=FOR_WHOLE if whole else SNIPPET,
            data={"name": access.name},
            rewritable=not whole and loader.item is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Keep the file open in each process that reads it."""
        _open_once(script, finding.where[0], finding.data["name"])


def _open_once(script: Script, site: Site, name: str) -> None:
    """Have the `__getitem__` whose head is at `site` find open what it opens with `name`.

    Raises `CannotRewrite` where it does not open one file, the same for all items, to read it.
    """
    function = script.definition(site)
    opened = script.free_name(site.file, _KEPT)
    module = script.linked(site.file)
    call = _opening(module, function, name)
    context = _is_context(module, call)
    closing = [] if context else _closing(module, function, call)
    modules = ["functools", "os", *(["contextlib"] if context else [])]
    functools, os, *contextlib = (script.module_name(site.file, each) for each in modules)
    given = [script.expression(script.site_of(site, one)) for one in call.args]
    given += [
        f"{one.arg}={script.expression(script.site_of(site, one.value))}" for one in call.keywords
    ]
    kept = f"{opened}({', '.join([f'{os}.getpid()', *given])})"
    value = f"{contextlib[0]}.nullcontext({kept})" if context else kept
    script.replace_call(script.site_of(site, call), value)
    script.remove_statements([script.site_of(site, one.value) for one in closing])
    script.insert_function(
        site.file,
        f"@{functools}.cache\ndef {opened}(process, *given, **named):\n"
        f'    """Open a file once in each process, and keep it open."""\n'
        f"    return {ast.unparse(call.func)}(*given, **named)\n",
    )


def _opening(module: Module, function: Function, name: str) -> ast.Call:
    calls = [node for node in inside(function) if isinstance(node, ast.Call)]
    found = [one for one in calls if module.name(one.func) == name]
    if len(found) != 1:
        raise CannotRewrite(f"`{name}` is called in {len(found)} places of {function.name}")
    call = found[0]
    own = set(module.opened(function).bindings) - {"self"}
    if any(own & names_in(each) for each in (*call.args, *(one.value for one in call.keywords))):
        raise CannotRewrite("which file is opened depends on the item")
    mode = next((one.value for one in call.keywords if one.arg == "mode"), None)
    mode = mode or (call.args[1] if len(call.args) > 1 else None)
    if mode is not None and _HANDLES[name] and module.constant(mode) not in _HANDLES[name]:
        raise CannotRewrite("the file is not opened to be read only")
    starred = any(isinstance(one, ast.Starred) for one in call.args)
    if starred or any(one.arg is None for one in call.keywords):
        raise CannotRewrite("its arguments are not written out")
    return call


def _is_context(module: Module, call: ast.Call) -> bool:
    """Whether a `with` closes the file; raises `CannotRewrite` where it goes elsewhere."""
    parent = module.parent(call)
    if not isinstance(parent, ast.withitem | ast.Subscript) and not _named(parent):
        raise CannotRewrite("the file is not given a name of its own")
    return isinstance(parent, ast.withitem)


def _named(parent: ast.AST | None) -> str:
    """The only name that a statement gives what it holds."""
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _closing(module: Module, function: Function, call: ast.Call) -> list[ast.Expr]:
    """The statements that close the file; raises `CannotRewrite` where something else does."""
    name = _named(module.parent(call))
    found = []
    for node in inside(function):
        if isinstance(node, ast.withitem) and ast.unparse(node.context_expr) == name:
            raise CannotRewrite("a `with` closes the file")
        if isinstance(node, ast.Attribute) and ast.unparse(node) == f"{name}.close":
            statement = module.parent(module.parent(node) or node)
            if not isinstance(statement, ast.Expr):
                raise CannotRewrite("what closes the file is no plain statement")
            found.append(statement)
    return found
