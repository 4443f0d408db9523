"""Calls of the user's pipelines as they stand in the file, and the functions they take."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.source.bodies import function_of
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script


def parsed(script: Script, file: str) -> Module:
    """Return a file in which names are resolved, those that come from the user's others as well."""
    return Module(script.module(file), "", Path(script.path(file)), _Imported(script))


class _Imported:
    """Finds definitions in the files that a file imports."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def definition(self, name: str, path: Path) -> tuple[Module, Function | ast.ClassDef] | None:
        """Return what `name`, as imported in the file `path`, stands for, and its file."""
        if "." not in name:
            return None
        found = self._script.project([str(path)]).bound(name, str(path))
        bindings = [] if found is None else found[0].top(found[1])
        node = bindings[0].node if len(bindings) == 1 else None
        if found is None or not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return None
        return parsed(self._script, found[0].path), node


def mapped(script: Script, site: Site) -> tuple[Module, Function | ast.Lambda | None]:
    """Return the file of the call at `site` and the function it takes; None if not in it."""
    module = parsed(script, site.file)
    place = script.argument(site, 0, "map_func")
    if place is None:
        return module, None
    wanted = ast.dump(ast.parse(f"({script.expression(place)})", mode="eval").body)
    for node in module.nodes:
        if isinstance(node, ast.expr) and node.lineno == place.line and ast.dump(node) == wanted:
            return module, function_of(module, node)
    return module, None


def call_at(script: Script, module: Module, site: Site) -> ast.Call:
    """Return the call at a site, as a node of `module`."""
    wanted = ast.dump(ast.parse(f"({script.expression(site)})", mode="eval").body)
    for node in module.nodes:
        here = isinstance(node, ast.Call) and node.end_lineno == site.end_line
        if isinstance(node, ast.Call) and here and ast.dump(node) == wanted:
            return node
    raise CannotRewrite("the call was not found")
