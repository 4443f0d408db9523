"""Calls of tensors' operations, whether written as functions of PyTorch or as methods."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from trainperf.errors import CannotRewrite
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
    return Operation(name, args[0], args[1:], keywords) if args else None


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
        text = given.value if isinstance(given, ast.Constant) else None
        return float(text) if isinstance(text, str) else number(given)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Pow):
        one, other = number(node.left), number(node.right)
        if one is None or not other:
            return None
        return one / other if isinstance(node.op, ast.Div) else float(one**other)
    return None


def whole(node: ast.expr | None) -> int | None:
    """A whole number that is written out, None for anything else."""
    found = number(node)
    return int(found) if found is not None and found.is_integer() else None


# Matrix products, and in which order their operands have their dimensions.


PRODUCTS = ("matmul", "bmm", "einsum")


@dataclass(frozen=True)
class Product:
    """A product of two tensors; `rank` is their number of dimensions, None if not known.

    `equation` are the names of the dimensions of both and of the result, for an einsum.
    """

    left: ast.expr
    right: ast.expr
    rank: int | None = None
    equation: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Operand:
    """A tensor, and the method that puts its dimensions in order ('' where they are)."""

    node: ast.expr
    moved: str = ""


def product(node: ast.expr) -> Product | None:
    """Read `a @ b`, `torch.matmul(a, b)`, `a.bmm(b)`, an einsum; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return Product(node.left, node.right, _told(node.right))
    if called_name(node) not in PRODUCTS:
        return None
    if called_name(node) == "einsum":
        return _einsum(node)
    found = operation(node)
    other = found.argument(0, "other") or found.argument(0, "mat2") if found else None
    if found is None or other is None:
        return None
    return Product(found.of, other, 3 if found.name == "bmm" else _told(other))


def _einsum(node: ast.expr) -> Product | None:
    assert isinstance(node, ast.Call)
    texts = [each for each in node.args if _is_text(each)]
    others = [each for each in node.args if not _is_text(each)]
    if len(others) == 1 and isinstance(others[0], ast.List | ast.Tuple):
        others = list(others[0].elts)
    if len(texts) != 1 or len(others) != 2 or node.keywords:
        return None
    text = str(texts[0].value)  # type: ignore[attr-defined]
    inputs, arrow, result = text.partition("->")
    parts = [*inputs.split(","), result]
    if not arrow or len(parts) != 3:
        return None
    named = tuple(map(_dimensions, parts))
    if len(named[0]) < 2 or len(named[2]) < 2:
        return None
    rank = None if "..." in text else len(named[2])
    return Product(others[0], others[1], rank, named)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _dimensions(text: str) -> tuple[str, ...]:
    plain = text.replace(" ", "")
    head = ("...",) if plain.startswith("...") else ()
    return (*head, *plain.removeprefix("..."))


def query_and_key(found: Product) -> tuple[Operand, Operand]:
    """The two operands of a product of scores, each as (…, positions, size of a head)."""
    if not found.equation:
        return Operand(found.left), _untransposed(found.right)
    one, other, scores = found.equation
    *batch, asked, known = scores
    summed = [each for each in one if each in other and each not in scores]
    if len(summed) != 1 or asked in other or known in one or known not in other:
        raise CannotRewrite("its einsum is no product of queries and keys")
    return (
        Operand(found.left, moved(one, (*batch, asked, *summed))),
        Operand(found.right, moved(other, (*batch, known, *summed))),
    )


def value_and_result(found: Product) -> tuple[Operand, str]:
    """The values as (…, positions, size of a head), and how the result's dimensions move."""
    if not found.equation:
        return Operand(found.right), ""
    weights, values, result = found.equation
    *batch, asked, known = weights
    sizes = [each for each in values if each not in weights]
    if len(sizes) != 1 or known not in values or asked in values or known in result:
        raise CannotRewrite("its einsum is no product of weights and values")
    return (
        Operand(found.right, moved(values, (*batch, known, *sizes))),
        moved((*batch, asked, *sizes), result),
    )


def moved(dimensions: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """The method that brings named dimensions into another order: `.transpose(1, 2)`, or ''.

    Raises `CannotRewrite` where they are not the same.
    """
    if sorted(dimensions) != sorted(wanted) or len(set(wanted)) != len(wanted):
        raise CannotRewrite("its einsum leaves dimensions out, or repeats them")
    order = [dimensions.index(each) for each in wanted]
    apart = [index for index, each in enumerate(order) if index != each]
    if not apart:
        return ""
    if "..." in wanted:
        raise CannotRewrite("its einsum moves dimensions behind those it does not name")
    if len(apart) == 2:
        return f".transpose({apart[0]}, {apart[1]})"
    return f".permute({', '.join(map(str, order))})"


def untransposed(node: ast.expr) -> tuple[ast.expr, int | None] | None:
    """`k` of `k.transpose(-2, -1)` and its like, and the number of its dimensions if it tells."""
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        return node.value, None
    found = operation(node)
    if found is None:
        return None
    places = [whole(each) for each in found.args]
    if found.name in ("transpose", "swapaxes", "swapdims"):
        ranks = {(-2, -1): None, (2, 3): 4, (1, 2): 3}
        pair = tuple(sorted(each for each in places if each is not None))
        return (found.of, ranks[pair]) if pair in ranks else None
    return None


def _told(right: ast.expr) -> int | None:
    """The number of dimensions that a transposition tells."""
    found = untransposed(right)
    return None if found is None else found[1]


def _untransposed(node: ast.expr) -> Operand:
    if (isinstance(node, ast.Attribute) and node.attr == "T") or called_name(node) == "t":
        raise CannotRewrite("its tensors have two dimensions")
    found = untransposed(node)
    return Operand(node, ".transpose(-2, -1)") if found is None else Operand(found[0])
