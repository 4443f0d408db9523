"""Whether a literal may be changed: who else reads the variable that holds it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.errors import CannotRewrite
from trainperf.source.module import Module
from trainperf.source.origins.dictionaries import MAKERS
from trainperf.source.origins.project import Project
from trainperf.source.origins.values import literal
from trainperf.source.statements import last_name

SAYS = ("print", "info", "debug", "warning", "log", "write", "format", "pprint")
"""Calls that only tell a value."""

METHODS = ("update", "copy", "get", "setdefault", "pop", "items", "keys")
"""Methods of a dictionary that hand its entries on, or take some up."""

DEEPEST = 6


def check(project: Project, file: Module, node: ast.expr, called: str, name: str) -> None:
    """Refuse a literal whose variable code reads that is not about this argument.

    `called` is the last name of the function or class whose argument `name` it is. What is
    the user's knob, an option or an attribute, may be changed whoever reads it.
    """
    target, keys = _target(file, node)
    if isinstance(target, ast.Name):
        _check(project, file, target, (called, name, keys), DEEPEST)


def check_taker(project: Project, file: Module, display: ast.expr, called: str) -> None:
    """Refuse to name a further argument in what an attribute holds, if others take it as well."""
    target, _ = _target(file, display)
    if not isinstance(target, ast.Attribute):
        return
    for each in project.holding(f".{target.attr}"):
        for node in each.nodes:
            if not isinstance(node, ast.Attribute) or node.attr != target.attr:
                continue
            around = each.parent(node)
            call = each.parent(around) if isinstance(around, ast.keyword) else None
            ours = isinstance(call, ast.Call) and last_name(call.func) == called
            if isinstance(node.ctx, ast.Load) and not ours:
                raise CannotRewrite(f"{target.attr} is read by other code as well")


def variable(file: Module, node: ast.expr) -> str:
    """Return the name of the variable that a literal is assigned to, "" for none."""
    target, keys = _target(file, node)
    return target.id if isinstance(target, ast.Name) and not keys else ""


About = tuple[str, str, frozenset[str]]
"""The name of a called function, its argument, and the keys under which the literal stands."""


def _target(file: Module, node: ast.AST) -> tuple[ast.expr | None, frozenset[str]]:
    """Return what a literal is assigned to, and the keys under which it stands in that."""
    inner, keys = node, set()
    for each in file.around(node):
        if isinstance(each, ast.keyword) and each.arg:
            keys.add(each.arg)
        if isinstance(each, ast.Dict) and inner in each.values:
            key = each.keys[each.values.index(inner)]
            keys.add(str(getattr(key, "value", "")))
        if isinstance(each, ast.Assign | ast.AnnAssign):
            first = each.targets[0] if isinstance(each, ast.Assign) else each.target
            own = isinstance(file.parent(each), ast.ClassDef)
            return (None if own else first), frozenset(keys)
        if isinstance(each, ast.stmt | ast.arguments | ast.Lambda):
            break
        if isinstance(each, ast.Call) and last_name(each.func) not in MAKERS:
            break
        inner = each
    return None, frozenset()


def _check(project: Project, file: Module, variable: ast.Name, about: About, depth: int) -> None:
    for at, node in _loads(project, file, variable):
        statement = next(e for e in at.around(node) if isinstance(e, ast.stmt))
        if _about(at, node, about):
            continue
        further = _handed_on(at, node, statement)
        if further is None or depth == 0:
            raise CannotRewrite(f"{variable.id} is read by other code as well")
        if further.id != variable.id:
            _check(project, at, further, about, depth - 1)


def _loads(project: Project, file: Module, variable: ast.Name) -> Iterator[tuple[Module, ast.Name]]:
    """Yield where a variable is read, in other files as well if it stands at the top of one."""
    bound = file.bindings(variable)
    top = bound is file.top.bindings.get(variable.id)
    for node in file.nodes:
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        if node.id == variable.id and file.bindings(node) is bound:
            yield file, node
    for other in project.holding(variable.id) if top else ():
        for node in other.nodes if other is not file else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found = other.bindings(node) or ()
                for each in found:
                    named = each.kind == "import" and each.origin.endswith(f".{variable.id}")
                    home = project.bound(each.origin, other.path) if named else None
                    if home is not None and home[:2] == (file, variable.id):
                        yield other, node


def _about(file: Module, node: ast.Name, about: About) -> bool:
    """Whether a read is of no matter, or about the very argument that is to change."""
    called, name, keys = about
    around = file.parent(node)
    if isinstance(around, ast.Subscript) and around.value is node and keys:
        key = literal(around.slice)
        if key is not None and key[0] not in keys:
            return True  # another entry
    inner: ast.AST = node
    for each in file.around(node):
        if isinstance(each, ast.Compare):
            return True
        if isinstance(each, ast.Call) and inner is not each.func:
            if last_name(each.func) in (called, *SAYS):
                return True
            own = isinstance(inner, ast.keyword) and inner.arg in (name, node.id)
            if (own or inner is node) and file.defined(each.func) is not None:
                return True  # of a function of the user's, which was followed
        if isinstance(each, ast.Attribute) and each.attr in METHODS:
            call = file.parent(each)
            if (
                isinstance(call, ast.Call)
                and call.func is each
                and isinstance(file.parent(call), ast.Expr)
            ):
                return True  # it takes something up
        if isinstance(each, ast.stmt):
            return isinstance(each, ast.Assign | ast.Delete) and _is_target(each, node)
        inner = each
    return False


def _is_target(statement: ast.stmt, node: ast.Name) -> bool:
    """Whether a name is read only to put an entry into what it holds: `how["a"] = 1`."""
    targets = getattr(statement, "targets", [])
    return any(isinstance(each, ast.Subscript) and each.value is node for each in targets)


def _handed_on(file: Module, node: ast.Name, statement: ast.stmt) -> ast.Name | None:
    """Return the variable that takes up what another holds; None where none does."""
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and _whole(file, node):
            return targets[0]
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return statement.target
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    taker = call.func.value
    return taker if call.func.attr == "update" and isinstance(taker, ast.Name) else None


def _whole(file: Module, node: ast.Name) -> bool:
    """Whether nothing but displays, choices and copies stand between a name and its statement."""
    passes = (ast.IfExp, ast.Dict, ast.BinOp, ast.keyword)
    inner: ast.AST = node
    for each in file.around(node):
        if isinstance(each, ast.stmt):
            return True
        if isinstance(each, ast.IfExp) and inner is each.test:
            return False
        inner = each
        copies = isinstance(each, ast.Call) and last_name(each.func) in ("dict", "copy", "int")
        handed = isinstance(each, ast.Attribute) and each.attr == "copy"
        if not (isinstance(each, passes) or copies or handed):
            return False
    return False
