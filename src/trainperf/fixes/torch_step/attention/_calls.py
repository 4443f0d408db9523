"""Calls of tensors' operations, whether written as functions of PyTorch or as methods."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from trainperf.fixes.torch_step.attention._scope import called_name
from trainperf.source.statements import dotted

MODULES = ("torch", "th", "F", "nn", "functional", "np", "math")
"""Usual names of the modules of PyTorch, NumPy and Python whose functions are called."""


@dataclass(frozen=True)
class Operation:
    """A call by its last name, what it works on first, and the arguments after that."""

    name: str
    of: ast.expr
    args: tuple[ast.expr, ...]
    keywords: dict[str, ast.expr]

    def argument(self, index: int, name: str) -> ast.expr | None:
        """An argument by its place after the first operand, or by its name."""
        return self.args[index] if index < len(self.args) else self.keywords.get(name)


def operation(node: ast.expr) -> Operation | None:
    """Read `torch.f(x, …)`, `f(x, …)` and `x.f(…)` alike; None for what is no such call."""
    if not isinstance(node, ast.Call) or any(each.arg is None for each in node.keywords):
        return None
    if any(isinstance(each, ast.Starred) for each in node.args):
        return None
    keywords = {str(each.arg): each.value for each in node.keywords}
    name, args = called_name(node), tuple(node.args)
    if isinstance(node.func, ast.Attribute) and not _module(node.func.value):
        return Operation(name, node.func.value, args, keywords)
    if args:
        return Operation(name, args[0], args[1:], keywords)
    first = keywords.pop("input", None)
    return None if first is None else Operation(name, first, (), keywords)


def _module(node: ast.expr) -> bool:
    return dotted(node).partition(".")[0] in MODULES


def number(node: ast.expr | None) -> float | None:
    """The number that a piece of source is: `-1e9`, `float("-inf")`, `2 ** 15`; None if none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Attribute) and node.attr == "inf":
        return float("inf")
    if isinstance(node, ast.Call) and called_name(node) in ("float", "tensor") and node.args:
        given = node.args[0]
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return _of_text(given.value)
        return number(given)
    if isinstance(node, ast.BinOp):
        return _computed(node)
    return None


def _of_text(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _computed(node: ast.BinOp) -> float | None:
    one, other = number(node.left), number(node.right)
    if one is None or other is None:
        return None
    try:
        if isinstance(node.op, ast.Pow):
            return float(one**other)
        if isinstance(node.op, ast.Mult):
            return one * other
        if isinstance(node.op, ast.Div):
            return one / other
        if isinstance(node.op, ast.Add):
            return one + other
        return one - other if isinstance(node.op, ast.Sub) else None
    except (ArithmeticError, TypeError):
        return None


def whole(node: ast.expr | None) -> int | None:
    """A whole number that is written out, None for anything else."""
    found = number(node)
    return int(found) if found is not None and found.is_integer() else None
