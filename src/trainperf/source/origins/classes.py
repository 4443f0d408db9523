"""Attributes of a class of the user's, or of an object made of it, by its source."""

from __future__ import annotations

import ast
from typing import Any

from trainperf.source.module import Module
from trainperf.source.origins.project import Definition
from trainperf.source.origins.values import Contents, Node, Unknown, Value
from trainperf.source.scopes import FUNCTIONS

Entries = dict[str, tuple[Node | Value, ...]]


def held(wanted: Definition, calls: list[tuple[Module, ast.Call]]) -> Contents:
    """Return what objects of a class hold that these calls make; what the class itself does.

    What a method sets on `self` counts as well; before what stands in the class if `__init__`
    does so. Fields that a call gives are not told apart.
    """
    file, node = wanted
    assert isinstance(node, ast.ClassDef)
    entries: Entries = {}
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            entries[each.target.id] = () if each.value is None else ((file, each.value),)
        elif isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name):
                    entries[target.id] = ((file, each.value),)
    first = next((e for e in node.body if isinstance(e, FUNCTIONS) and e.name == "__init__"), None)
    for name, bindings in file.opened(node).bindings.items():
        if name.startswith("self."):
            _set_on_self(file, name.removeprefix("self."), bindings, first, entries)
    if first is None and any(call.args or call.keywords for _, call in calls):
        return Contents(open=Unknown(f"{node.name} is given its fields"))
    return Contents(entries)


def _set_on_self(
    file: Module, name: str, bindings: list[Any], first: ast.AST | None, entries: Entries
) -> None:
    found: list[Node | Value] = []
    certain = False
    for each in bindings:
        if each.value is None:
            found.append(Unknown(f"{name} is worked out", derived=True))
        else:
            found.append((file, each.value))
        certain = certain or (first is not None and each.node in getattr(first, "body", ()))
    entries[name] = tuple(found) if certain else (*entries.get(name, ()), *found)
