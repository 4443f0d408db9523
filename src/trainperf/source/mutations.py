"""Objects that code changes in place, or reads on from, beyond what it makes itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from trainperf.source.arguments import handed
from trainperf.source.bodies import function_of
from trainperf.source.iterations import arguments, declared, stored
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import COLLECTS, assigned, called, made_here, root

STREAMS = frozenset(
    {
        "__next__", "execute", "fetchall", "fetchmany", "fetchone", "get_next", "get_nowait",
        "grab", "read", "readinto", "readline", "readlines", "recv", "reset", "retrieve", "seek",
        "send", "step", "write",
    }
)  # fmt: skip
"""Methods of files, cursors, queues, cameras and environments: each call goes on from the last."""

IN_PLACE = ("fill", "reverse", "shuffle", "sort")
"""Methods, besides those that collect, that change what they are called on."""

ALONE = frozenset({"chdir", "fit", "predict", "predict_on_batch", "seed", "set_seed"})
"""Functions that set something for the whole process, or that models run one at a time."""

ALONE_OF = ("matplotlib.", "pylab.", "tkinter.", "seaborn.")
"""Modules that draw on one canvas."""

BORROWED = "tokenizer"
"""A part of the names of fast tokenizers, which refuse a second thread."""

DEPTH = 3
"""How many functions of the file are followed from a loop's body."""


def changes_shared(module: Module, body: Sequence[ast.stmt], given: Iterable[str] = ()) -> str:
    """Return the source of something that a body changes, or reads on from, beyond an iteration.

    A list that it fills, an attribute, an open file. '' where there is none. Functions of the
    file are followed; what libraries do is taken to be fit for threads, as NumPy, Pillow and
    OpenCV are, random generators of NumPy and Python included. `given` is its own as well.
    """
    own = (made_here(body) | set(given)) - {"self", "cls"}
    return _changes(module, body, own, DEPTH, set())


def changed_by(statements: Iterable[ast.AST]) -> set[str]:
    """Return the names that some statements bind, fill or change in place."""
    statements = list(statements)
    nodes = (each for one in statements for each in ast.walk(one))
    bound = stored(statements) | {root(target) for node in nodes for target in assigned(node)}
    return (bound | changed_in_place(statements)) - {"", "self"}


def changed_in_place(statements: Iterable[ast.AST]) -> set[str]:
    """Return the names of what some statements fill, or change a part of."""
    found: set[str] = set()
    for node in (each for one in statements for each in ast.walk(one)):
        found |= {root(each) for each in assigned(node) if not isinstance(each, ast.Name)}
        if isinstance(node, ast.Call):
            found |= {root(each) for each in filled(node)}
    return found - {"", "self"}


def filled(call: ast.Call) -> list[ast.expr]:
    """Return what a call changes in place: what it is a method of, arrays that it writes into."""
    found = [each.value for each in call.keywords if each.arg == "out"]
    name = called(call)
    if name in ("copyto", "shuffle") and call.args:
        return [*found, call.args[0]]
    if isinstance(call.func, ast.Attribute) and (name in COLLECTS or name in IN_PLACE):
        found.append(call.func.value)
    return found


def _changed_for_callers(function: Function) -> set[str]:
    """The names of what a function changes in place, by `x += 1` as well: x may be an array."""
    targets = (each.target for each in ast.walk(function) if isinstance(each, ast.AugAssign))
    adding = {each.id for each in targets if isinstance(each, ast.Name)}
    return changed_in_place(function.body) | adding


def changed_in_calls(module: Module, statements: Iterable[ast.AST], depth: int = DEPTH) -> set[str]:
    """Return the names of what functions of the file change in place, or set, for their callers.

    That is what `statements` give them, and what they know of the module.
    """
    found: set[str] = set()
    for node in (each for one in statements for each in ast.walk(one)):
        function = function_of(module, node.func) if isinstance(node, ast.Call) else None
        if not depth or not isinstance(node, ast.Call) or not isinstance(function, FUNCTIONS):
            continue
        changed = _changed_for_callers(function)
        changed |= changed_in_calls(module, function.body, depth - 1)
        found |= changed - stored(function.body) - arguments(function)
        found |= declared(function)
        found |= {root(given) for name, given in handed(function, node) if name in changed}
    return found - {"", "self"}


def _changes(
    module: Module, body: Sequence[ast.stmt], own: set[str], depth: int, seen: set[int]
) -> str:
    for node in (each for one in body for each in ast.walk(one)):
        if isinstance(node, ast.Global | ast.Nonlocal):
            return ast.unparse(node)
        for target in assigned(node):
            if not isinstance(target, ast.Name | ast.Tuple) and root(target) not in own:
                return ast.unparse(target)
        if isinstance(node, ast.Call):
            found = _called(module, node, own, depth, seen)
            if found:
                return found
    return ""


def _called(module: Module, node: ast.Call, own: set[str], depth: int, seen: set[int]) -> str:
    function = node.func
    last = function.attr if isinstance(function, ast.Attribute) else ""
    one_at_a_time = last in ALONE or (module.name(function) or "").startswith(ALONE_OF)
    if one_at_a_time or BORROWED in ast.unparse(function).lower():
        return f"{ast.unparse(function)}()"
    if isinstance(function, ast.Attribute) and not _is_made(module, function.value, own):
        taken = last == "get" and not node.args and not node.keywords  # of a queue
        if last in STREAMS or taken:
            return f"{ast.unparse(function)}()"
    read_on = node.args[:1] if called(node) == "next" else []
    if not all(_is_made(module, each, own) for each in (*filled(node), *read_on)):
        return ast.unparse(node)
    local = function_of(module, function) if depth else None
    imported = module.defined(function) if depth and local is None else None
    if imported is not None:
        module, local = imported[0], imported[1] if isinstance(imported[1], FUNCTIONS) else None
    if not isinstance(local, FUNCTIONS):
        return ""
    changed = _changed_for_callers(local)
    for parameter, given in handed(local, node):
        if parameter in changed and not _is_made(module, given, own):
            return f"{ast.unparse(given)}, by {local.name}()"
    if id(local) not in seen:
        seen.add(id(local))
        inner = (made_here(local.body) | arguments(local)) - {"self", "cls"}
        return _changes(module, local.body, inner, depth - 1, seen)
    return ""


def _is_made(module: Module, node: ast.expr, own: set[str]) -> bool:
    """Whether an object is made in the iteration, or is no object but an imported module."""
    while True:
        if isinstance(node, ast.Name):
            return node.id in own or _is_module(module, node)
        if isinstance(node, ast.Attribute | ast.Subscript):
            if _is_module(module, node):
                return True
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if _is_module(module, node.func.value):
                return True
            node = node.func.value
        else:
            return True


def _is_module(module: Module, node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    found = module.bindings(node) if isinstance(node, ast.Name) else None
    return bool(found) and all(each.kind == "import" for each in found or ())
