"""Attributes of a class of the user's, or of an object made of it, by its source."""

from __future__ import annotations

import ast
from typing import Any

from trainperf.source.arguments import argument, keyword, starred
from trainperf.source.module import Module
from trainperf.source.origins.project import Definition
from trainperf.source.origins.values import Contents, Node, Unknown, Value
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import last_name

FIELDS = ("field", "Field", "Factory", "attrib", "ib")
"""Functions that declare a field: of `dataclasses`, `pydantic`, `attrs`."""

Entries = dict[str, tuple[Node | Value, ...]]


def held(wanted: Definition, calls: list[tuple[Module, ast.Call]]) -> Contents:
    """Return what objects of a class hold that these calls make; what the class itself does.

    A field that a call gives counts before its default. What a method sets on `self` counts as
    well; before what stands in the class if `__init__` does so.
    """
    file, node = wanted
    assert isinstance(node, ast.ClassDef)
    entries: Entries = {}
    for base in reversed(node.bases):
        found = file.defined(base)
        if found is not None and isinstance(found[1], ast.ClassDef) and found[1] is not node:
            entries.update(held(found, []).entries)
    fields = []
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            fields.append(each.target.id)
            default = _default(each.value) if each.value is not None else None
            entries[each.target.id] = () if default is None else ((file, default),)
        elif isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name):
                    entries[target.id] = ((file, each.value),)
    first = next((e for e in node.body if isinstance(e, FUNCTIONS) and e.name == "__init__"), None)
    for name, bindings in file.opened(node).bindings.items():
        if name.startswith("self."):
            _set_on_self(file, name.removeprefix("self."), bindings, first, entries)
    if first is None:
        _given(calls, fields, entries)
    return Contents(entries)


def _default(node: ast.expr) -> ast.expr | None:
    """Return the default of a field that is declared so, else the expression itself."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in FIELDS:
        return node
    given = keyword(node, "default")
    if given is not None:
        return given.value
    made = keyword(node, "default_factory") or keyword(node, "factory")
    if made is not None:
        if isinstance(made.value, ast.Lambda):
            return made.value.body
        return ast.copy_location(ast.Call(made.value, [], []), made.value)
    return node.args[0] if len(node.args) == 1 else None


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


def _given(calls: list[tuple[Module, ast.Call]], fields: list[str], entries: Entries) -> None:
    """Put what calls give to the fields of a dataclass before the defaults."""
    for place, name in enumerate(dict.fromkeys(fields)):
        values: list[Node | Value] = []
        for file, call in calls:
            given = argument(call, name, place)
            if given is not None:
                values.append((file, given))
                continue
            values += entries[name]
            if starred(call):
                named = any(each.arg is None for each in call.keywords)
                among = "**keywords" if named else "*arguments"
                values.append(Unknown(f"{name} may be among {among}"))
        if calls:
            entries[name] = tuple(dict.fromkeys(values))
