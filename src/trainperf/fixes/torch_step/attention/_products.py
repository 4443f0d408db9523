"""Matrix products, and in which order their operands have their dimensions."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention._calls import operation, whole
from trainperf.fixes.torch_step.attention._scope import called_name

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
    words = any(len(each) > 1 for each in text.replace("->", ",").replace(",", " ").split())
    named = tuple(_dimensions(part, words and " " in part.strip()) for part in parts)
    rank = None if "..." in text else len(named[2])
    return Product(others[0], others[1], rank, named)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _dimensions(text: str, words: bool) -> tuple[str, ...]:
    if words:
        return tuple(text.split())
    plain = text.replace(" ", "")
    head = ("...",) if plain.startswith("...") else ()
    return (*head, *plain.removeprefix("..."))


def query_and_key(found: Product) -> tuple[Operand, Operand]:
    """The two operands of a product of scores, each as (…, positions, size of a head)."""
    if not found.equation:
        return Operand(found.left), _untransposed(found.right)
    one, other, scores = found.equation
    left, right = found.left, found.right
    if len(scores) < 2:
        raise CannotRewrite("the scores have one dimension")
    *batch, asked, known = scores
    if asked in other:
        one, other, left, right = other, one, right, left
    summed = [each for each in one if each in other and each not in scores]
    if len(summed) != 1 or asked in other or known in one or known not in other:
        raise CannotRewrite("its einsum is no product of queries and keys")
    return (
        Operand(left, moved(one, (*batch, asked, *summed))),
        Operand(right, moved(other, (*batch, known, *summed))),
    )


def value_and_result(found: Product) -> tuple[Operand, str]:
    """The values as (…, positions, size of a head), and how the result's dimensions move."""
    if not found.equation:
        return Operand(found.right), ""
    weights, values, result = found.equation
    if len(weights) < 2:
        raise CannotRewrite("the weights have one dimension")
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
    if found.name == "permute" and places in ([0, 1, 3, 2], [0, 2, 1]):
        return found.of, len(places)
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
