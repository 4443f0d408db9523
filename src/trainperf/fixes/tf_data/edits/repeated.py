"""A generator that yields the same in every epoch, by its source, or why that is not sure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.repeating import (
    changing_attribute,
    not_repeated,
)
from trainperf.fixes.tf_data.edits.mapped import call_at, parsed
from trainperf.fixes.tf_data.edits.which_generator import GIVEN, YIELDS, generator_at
from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of, reached
from trainperf.source.iterations import changes_shared, of_this_function
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Binding, Function
from trainperf.source.statements import COLLECTS, assigned, made_here, parameters, root

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

KEPT = "no cache keeps what it yields"

ENDLESS = ("itertools.cycle", "itertools.count")
REPEAT = "itertools.repeat"
"""Calls of which a loop may never end."""

PURE = frozenset(
    {
        "abs", "all", "any", "as_posix", "astype", "clip", "copy", "count", "decode", "encode",
        "endswith", "exists", "find", "flatten", "format", "get", "glob", "groupby", "head",
        "index", "is_file", "items", "iterdir", "iterrows", "itertuples", "join", "keys", "lower",
        "max", "mean", "min", "numpy", "ravel", "read_bytes", "read_text", "replace", "reshape",
        "resolve", "rglob", "round", "split", "splitlines", "startswith", "std", "strip", "sum",
        "to_numpy", "tobytes", "toarray", "tolist", "transpose", "upper", "values", "with_suffix",
    }
)  # fmt: skip
"""Methods that give the same each time and leave what they are called on as it is."""

DEEP = 3
"""How many calls an argument is followed back through, to where it was made."""

IN_PLACE = ("sort", "reverse", "shuffle", "fill", "partition", "resize", "step")
"""Methods, besides those that collect, that change what they are called on."""


def check_repeats(script: Script, site: Site, seen: object) -> None:
    """Raise `CannotRewrite` unless the generator of the call at `site` surely repeats itself.

    `seen` is where the run saw it defined: file and line, or None. It must end by itself, call
    nothing that may draw or keeps state, and read nothing that changes behind it.
    """
    head = generator_at(script, site, seen)
    function, module = script.definition(head), parsed(script, head.file)
    name = function.name
    if isinstance(function, ast.AsyncFunctionDef) or _endless(module, function):
        raise CannotRewrite(f"{KEPT}: {name} may go on for ever")
    drawn = not_repeated(module, function)
    if drawn:
        raise CannotRewrite(f"{KEPT}: {name} calls {drawn}, which may give another result")
    kept = changes_shared(module, function.body) or _asked(module, function)
    if kept:
        raise CannotRewrite(f"{KEPT}: {name} may change {kept}, or read on from it")
    changed = _attribute_changed(module, function) or _name_changed(module, function)
    if not changed:
        there = module if head.file == site.file else parsed(script, site.file)
        changed = _given_changed(there, call_at(script, there, site))
    if changed:
        raise CannotRewrite(f"{KEPT}: {name} reads {changed}, which may change between epochs")


def _endless(module: Module, function: Function) -> bool:
    for node in of_this_function(function.body):
        if isinstance(node, ast.While) and any(
            isinstance(each, YIELDS) for each in of_this_function(node.body)
        ):
            return True
        if isinstance(node, ast.Call):
            name, many = module.name(node.func), len(node.args) > 1
            if name in ENDLESS or (name == "iter" and many) or (name == REPEAT and not many):
                return True
    return False


def _asked(module: Module, function: Function) -> str:
    """A method of an object from outside of which it is not known that it changes nothing."""
    made = made_here(function.body)
    for each in _with_called(module, function):
        own = made if each is function else made_here(each.body) | set(parameters(each))
        for node in ast.walk(each):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            name = root(node.func)
            if not name or name in own - {"self"} or node.func.attr in PURE:
                continue
            if module.name(node.func) is None and function_of(module, node.func) is None:
                return f"{ast.unparse(node.func)}()"
    return ""


# ----------------------------------------------------- what it reads and others may change


def _attribute_changed(module: Module, function: Function) -> str:
    """An attribute of its object that something sets, fills or shuffles behind it, or ''."""
    owner = next((one for one in module.around(function) if isinstance(one, ast.ClassDef)), None)
    nodes = [node for node in reached(module, function.body) if isinstance(node, ast.Attribute)]
    read = {node.attr for node in nodes if root(node) == "self"}
    if not read:
        return ""
    return changing_attribute([module], owner, read) or _shuffled(module, read)


def _shuffled(module: Module, attributes: set[str]) -> str:
    for node in module.nodes:
        if isinstance(node, ast.Call) and _last(node) == "shuffle":
            for each in (part for given in node.args for part in ast.walk(given)):
                if isinstance(each, ast.Attribute) and each.attr in attributes:
                    return ast.unparse(each)
    return ""


def _name_changed(module: Module, function: Function) -> str:
    """A name from outside that it reads, or a function of the file that it calls, or ''."""
    for each in _with_called(module, function):
        inside = {id(node) for node in ast.walk(each)}
        for name in (node for node in ast.walk(each) if isinstance(node, ast.Name)):
            found = module.bindings(name) or []
            if any(id(one.node) in inside for one in found):
                continue
            if _changes(module, name.id, found, each, DEEP):
                return name.id
    return ""


def _with_called(module: Module, function: Function) -> Iterator[Function]:
    """A function and those of its file that it calls."""
    seen: dict[int, Function] = {}
    stack = [function]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        for node in ast.walk(one):
            called = function_of(module, node.func) if isinstance(node, ast.Call) else None
            if isinstance(called, FUNCTIONS):
                stack.append(called)


def _given_changed(module: Module, call: ast.Call) -> str:
    """A name in what `from_generator` is given that may be another one later, or ''."""
    given = argument(call, GIVEN["from_generator"], 0)
    if given is None:
        return ""
    inside = {id(node) for node in ast.walk(given)}
    for name in (node for node in ast.walk(given) if isinstance(node, ast.Name)):
        found = module.bindings(name) or []
        own = any(id(one.node) in inside for one in found)
        if not own and _changes(module, name.id, found, call, DEEP):
            return name.id
    return ""


def _changes(module: Module, name: str, found: list[Binding], reader: ast.AST, deep: int) -> bool:
    """Whether what a name stands for may change after `reader`, which reads it late.

    It is bound in a loop, or once more behind it; something behind it or in another function
    writes into it; or that holds for what is handed in as a parameter.
    """
    line = getattr(reader, "end_lineno", 0)
    if not found or all(one.kind in ("import", "definition") for one in found):
        return False
    for one in found:
        at = getattr(one.node, "lineno", 0)
        if one.kind == "loop" or (one.kind != "parameter" and at > line):
            return True
    home = _scope_of(module, found)
    for node in module.nodes:
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return True
        target = _written(node, name)
        if target is None or module.bindings(target) != found:
            continue
        if module.function(node) is not home or node.lineno > line:  # type: ignore[attr-defined]
            return True
    if found[0].kind != "parameter" or not deep:
        return False
    return any(
        _changes(module, each.id, module.bindings(each) or [], call, deep - 1)
        for call, given in _handed_in(module, home, name)
        for each in ast.walk(given)
        if isinstance(each, ast.Name)
    )


def _scope_of(module: Module, found: list[Binding]) -> ast.AST | None:
    """The function that binds a name; None where the file does."""
    if found[0].kind == "parameter":
        node = found[0].node
        return node if isinstance(node, FUNCTIONS) else module.function(node)
    return module.function(found[0].node)


def _written(node: ast.AST, name: str) -> ast.Name | None:
    """The name where a node writes into what it stands for, or changes its order."""
    written: list[ast.expr] = [
        each for each in assigned(node) if isinstance(each, ast.Subscript | ast.Attribute)
    ]
    if isinstance(node, ast.AugAssign):
        written.append(node.target)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        changes = node.func.attr in COLLECTS or node.func.attr in IN_PLACE
        written += [node.func.value] if changes else []
    if isinstance(node, ast.Call) and _last(node) == "shuffle":
        written += node.args
    for each in written:
        if root(each) == name:
            return next(n for n in ast.walk(each) if isinstance(n, ast.Name) and n.id == name)
    return None


def _handed_in(
    module: Module, function: ast.AST | None, name: str
) -> Iterable[tuple[ast.Call, ast.expr]]:
    """What the calls of a function in its file give it as the parameter `name`."""
    if not isinstance(function, FUNCTIONS):
        return
    names = parameters(function)
    place = names.index(name) if name in names else -1
    if names[:1] in (["self"], ["cls"]):
        place -= 1
    for node in module.nodes:
        if isinstance(node, ast.Call) and function_of(module, node.func) is function:
            given = argument(node, name, place) if place >= 0 else None
            if given is not None:
                yield node, given


def _last(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
