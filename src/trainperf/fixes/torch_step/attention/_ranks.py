"""The number of dimensions of a tensor, where the source tells it."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention._calls import operation
from trainperf.fixes.torch_step.attention._scope import Scope, is_name, own_attribute

KEEPING = (
    "transpose",
    "contiguous",
    "float",
    "to",
    "type_as",
    "softmax",
    "mul",
    "div",
    "normalize",
)
"""Methods whose result has as many dimensions as what they work on."""

DEEPEST = 8


def rank_of(scope: Scope, node: ast.expr, at: ast.stmt, depth: int = 0) -> int | None:
    """How many dimensions the tensor `node` has in the statement `at`; None if not known."""
    if depth > DEEPEST:
        return None
    if isinstance(node, ast.Name):
        return _of_name(scope, node.id, at, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        return rank_of(scope, node.left, at, depth + 1)
    if not isinstance(node, ast.Call):
        return None
    if own_attribute(node.func) and scope.made_by(node.func) == "Linear" and len(node.args) == 1:
        return rank_of(scope, node.args[0], at, depth + 1)
    found = operation(node)
    if found is None:
        return None
    if found.name in ("view", "reshape", "permute"):
        sizes = found.args
        if len(sizes) == 1:
            sizes = tuple(sizes[0].elts) if isinstance(sizes[0], ast.Tuple | ast.List) else ()
        return len(sizes) or None
    if found.name == "rearrange" and found.args and isinstance(found.args[0], ast.Constant):
        return _of_pattern(str(found.args[0].value))
    return rank_of(scope, found.of, at, depth + 1) if found.name in KEEPING else None


def _of_name(scope: Scope, name: str, at: ast.stmt, depth: int) -> int | None:
    try:
        held = scope.held(name, at)
        if held is None and scope.changed(name, at) is not None:
            return None
    except CannotRewrite:
        return None
    if held is not None:
        return rank_of(scope, held[0], held[1], depth + 1)
    counts = {
        len(node.targets[0].elts)
        for node in ast.walk(scope.function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and not any(isinstance(each, ast.Starred) for each in node.targets[0].elts)
        and _shape_of(node.value, name)
    }
    return counts.pop() if len(counts) == 1 else None


def _shape_of(node: ast.expr, name: str) -> bool:
    """Whether it is `name.shape` or `name.size()`."""
    if isinstance(node, ast.Call) and not node.args:
        node = node.func
    shape = isinstance(node, ast.Attribute) and node.attr in ("shape", "size")
    return shape and is_name(node.value, name)  # type: ignore[attr-defined]


def _of_pattern(text: str) -> int | None:
    """The dimensions of what a pattern of einops gives: groups in brackets are one."""
    _, arrow, result = text.partition("->")
    count = depth = 0
    for token in result.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            depth += 1
            count += depth == 1
        elif token == ")":
            depth -= 1
        elif depth == 0:
            count += 1
    return count if arrow and "..." not in result else None
