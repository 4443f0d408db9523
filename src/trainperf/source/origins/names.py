"""The expressions that a name stands for, in its file or in one that it is imported from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from trainperf.source.origins.project import Project
from trainperf.source.origins.values import File, Node, Unknown
from trainperf.source.scopes import Binding
from trainperf.source.statements import last_name

Bound = tuple[File, ast.expr | ast.arg]
"""The expression or parameter that a name is bound to, and the file in which that stands."""


class Names:
    """The names of a project's files."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def bindings(self, file: File, node: ast.Name) -> Iterator[Unknown | Bound]:
        """Yield what a name is bound to, in this file or one that it is imported from."""
        bindings = file.module.bindings(node)
        if bindings is None:
            yield from self._starred(file, node.id)
            return
        yield from self.bound(file, node.id, bindings)
        if bindings is file.module.top.bindings.get(node.id) and "*" in file.module.top.bindings:
            yield Unknown(f"{node.id} may be imported with *")

    def bound(
        self, file: File, name: str, bindings: Sequence[Binding]
    ) -> Iterator[Unknown | Bound]:
        """Yield what some bindings of a name give it."""
        for each in bindings:
            plain = isinstance(each.node, ast.Assign) and len(each.node.targets) > 1
            if each.kind == "import":
                yield from self._imported(file, each.origin, name)
            elif each.kind == "parameter" and isinstance(each.node, ast.arg):
                yield file, each.node
            elif isinstance(each.node, ast.NamedExpr):
                yield Unknown(f"{name} is used where it is given its value")
            elif each.kind == "value" and each.value is not None and not plain:
                if _mentions(each.value, name):
                    yield Unknown(f"{name} is worked out from itself", derived=True)
                else:
                    yield file, each.value
            elif isinstance(each.node, ast.Assign) and each.kind == "other":
                yield self._unpacked(file, name, each.node)
            else:
                derived = isinstance(each.node, ast.AugAssign)
                yield Unknown(f"{name} is worked out", derived=derived)

    def _unpacked(self, file: File, name: str, node: ast.Assign) -> Unknown | Node:
        """Return what a function gives a name that takes up a part of what it returns."""
        (target, *_), call = node.targets, node.value
        if not isinstance(call, ast.Call) or not isinstance(target, ast.Tuple | ast.List):
            return Unknown(f"{name} is worked out")
        place = [last_name(each) for each in target.elts].index(name)
        if last_name(call.func) == "parse_known_args" and place == 0:
            return file, call
        found = self.project.defined(file, call.func)
        last = found[1].body[-1] if found is not None else None
        parts = last.value if isinstance(last, ast.Return) else None
        if found is None or not isinstance(parts, ast.Tuple) or len(parts.elts) <= place:
            return Unknown(f"{name} is worked out")
        return found[0], parts.elts[place]

    def _imported(self, file: File, origin: str, name: str) -> Iterator[Unknown | Bound]:
        bound = self.project.bound(origin, file.path)
        if bound is None:
            yield Unknown(f"{name} is imported from elsewhere")
        else:
            yield from self.bound(bound[0], bound[1], bound[0].top(bound[1]))

    def _starred(self, file: File, name: str) -> Iterator[Unknown | Bound]:
        stars = [each.origin for each in file.module.top.bindings.get("*", [])]
        for star in stars:
            bound = self.project.bound(f"{star[:-1]}{name}", file.path)
            if bound is not None:
                yield from self.bound(bound[0], bound[1], bound[0].top(bound[1]))
                return
        yield Unknown(f"{name} is bound nowhere in these files")


def _mentions(node: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
