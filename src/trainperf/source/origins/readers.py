"""Whether a literal may be changed: who else reads the variable that holds it."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.source.module import Module
from trainperf.source.origins.dictionaries import MAKERS
from trainperf.source.statements import last_name

PASSED = ("print", "info", "debug", "warning", "log", "write", "format", "pprint", "update")
"""Calls that only tell a value, or put it into a dictionary that is followed."""


def check(file: Module, node: ast.expr, called: str, name: str) -> None:
    """Refuse a literal whose variable code of its file reads that is not about this argument.

    `called` is the last name of the function or class whose argument `name` it is. What is
    the user's knob, an option or an attribute, may be changed whoever reads it.
    """
    variable = variable_of(file, node)
    bound = file.bindings(variable) if variable is not None else None
    for read in file.nodes if variable is not None else ():
        if not isinstance(read, ast.Name) or not isinstance(read.ctx, ast.Load):
            continue
        same = read.id == getattr(variable, "id", "") and file.bindings(read) is bound
        if same and not _is_about(file, read, called, name):
            raise CannotRewrite(f"{read.id} is read by other code as well")


def variable_of(file: Module, node: ast.expr) -> ast.Name | None:
    """Return the variable to which a literal is assigned, alone or within dictionaries."""
    for each in file.around(node):
        if isinstance(each, ast.Assign | ast.AnnAssign):
            target = each.targets[0] if isinstance(each, ast.Assign) else each.target
            own = isinstance(file.parent(each), ast.ClassDef)
            return target if isinstance(target, ast.Name) and not own else None
        if isinstance(each, ast.stmt | ast.arguments | ast.Lambda):
            break
        if isinstance(each, ast.Call) and last_name(each.func) not in MAKERS:
            break
    return None


def _is_about(file: Module, node: ast.Name, called: str, name: str) -> bool:
    """Whether a read is of no matter, or about the very argument that is to change."""
    inner: ast.AST = node
    for each in file.around(node):
        if isinstance(each, ast.Compare) or getattr(each, "attr", "") == "update":
            return True
        if isinstance(each, ast.Call) and inner is not each.func:
            own = isinstance(inner, ast.keyword) and inner.arg in (name, node.id)
            followed = (own or inner is node) and file.defined(each.func) is not None
            if last_name(each.func) in (called, *PASSED) or followed:
                return True
        if isinstance(each, ast.stmt):  # one that only puts an entry into what it holds
            parts = each.targets if isinstance(each, ast.Assign | ast.Delete) else []
            return any(isinstance(part, ast.Subscript) and part.value is node for part in parts)
        inner = each
    return False
