"""A file that is opened for each item, kept open in each process instead."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.source.module import inside
from trainperf.source.statements import names_in

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script
    from trainperf.source.module import Module
    from trainperf.source.scopes import Function

HANDLES = {
    "h5py.File": ("r",),
    "lmdb.open": (),
    "pyarrow.parquet.ParquetFile": (),
    "tarfile.open": ("r", "r:", "r:*"),
    "zipfile.ZipFile": ("r",),
}
"""What opens a file and hands out a part of it at a time, with the modes that only read."""

KEPT = "kept_open"


def open_once(script: Script, site: Site, name: str) -> None:
    """Have the `__getitem__` whose head is at `site` find open what it opens with `name`.

    Raises `CannotRewrite` where it does not open one file, the same for all items, to read it.
    """
    function = script.definition(site)
    opened = script.free_name(site.file, KEPT)
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
    if mode is not None and HANDLES[name] and module.constant(mode) not in HANDLES[name]:
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
