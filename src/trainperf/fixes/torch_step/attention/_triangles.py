"""Whether a mask is the one that hides later positions, as far as its making shows."""

from __future__ import annotations

import ast
from typing import Literal

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention._calls import number, operation, whole
from trainperf.fixes.torch_step.attention._scope import Scope, own_attribute, plain_value
from trainperf.source.statements import Function

Half = Literal["lower", "upper"]
"""Where a square mask is true or not zero: on and below the diagonal, or above it."""

OTHER: dict[Half, Half] = {"lower": "upper", "upper": "lower"}
PASSING = ("bool", "to", "view", "unsqueeze", "float", "contiguous", "type", "reshape", "byte")
JOINS = ("cat", "concat", "concatenate")
DEEPEST = 8


def hides_later(scope: Scope, node: ast.expr, at: ast.stmt) -> bool:
    """Whether a condition is true above the diagonal of a square, and nowhere else.

    Never where keys of earlier calls may be put before those of this one.
    """
    for each in ast.walk(scope.function):
        word = each.id if isinstance(each, ast.Name) else getattr(each, "arg", None)
        if isinstance(word, str) and ("cache" in word or "past" in word):
            return False
        if isinstance(each, ast.Call) and getattr(each.func, "attr", "") in JOINS:
            return False
    found = _half(scope, node, at, scope.function, 0)
    return found is not None and found[0] == "upper" and found[1][0] == found[1][1]


def adds_later(scope: Scope, node: ast.expr, at: ast.stmt) -> bool:
    """Whether what is added to scores is -inf above the diagonal of a square, and 0 elsewhere."""
    if isinstance(node, ast.Name):
        held = scope.held(node.id, at)
        if held is None:
            return False
        node, at = held
    found = operation(node)
    if found is not None and found.name == "triu":
        inner = operation(found.of)
        diagonal = whole(found.argument(0, "diagonal"))
        filled = inner.argument(0, "fill_value") if inner and inner.name == "full" else None
        if inner is None or diagonal != 1 or number(filled) != float("-inf"):
            return False
        sides = [ast.unparse(each) for each in _elements((inner.of,))]
        return len(sides) == 2 and sides[0] == sides[1]
    if found is not None and found.name == "masked_fill" and len(found.args) == 2:
        zeros = operation(found.of)
        empty = zeros is not None and zeros.name in ("zeros", "zeros_like")
        hides = hides_later(scope, found.args[0], at)
        return empty and number(found.args[1]) == float("-inf") and hides
    return False


Found = tuple[Half, tuple[str, str]]


def _half(
    scope: Scope, node: ast.expr, at: ast.stmt | None, within: Function, depth: int
) -> Found | None:
    """Which half of what square a mask is true in; None where it is not told.

    `at` is the statement in the function that attends; None in another method, `within`.
    """
    if depth > DEEPEST:
        return None
    if isinstance(node, ast.Name):
        held = _held(scope, node.id, at, within)
        return None if held is None else _half(scope, held[0], held[1], within, depth + 1)
    if own_attribute(node):
        given = scope.attribute(own_attribute(node))
        value, method = given[0] if len(given) == 1 else (None, within)
        return None if value is None else _half(scope, value, None, method, depth + 1)
    if isinstance(node, ast.Compare | ast.UnaryOp | ast.BinOp):
        return _turned(scope, node, at, within, depth)
    if isinstance(node, ast.Subscript):
        found = _half(scope, node.value, at, within, depth + 1)
        return None if found is None else _sliced(found, node.slice)
    made = operation(node)
    if made is None:
        return None
    if made.name in PASSING:
        return _half(scope, made.of, at, within, depth + 1)
    if made.name in ("logical_not", "eq", "ne"):
        zero = made.name == "logical_not" or number(made.argument(0, "other")) == 0
        found = _half(scope, made.of, at, within, depth + 1) if zero else None
        return found if made.name == "ne" or found is None else (OTHER[found[0]], found[1])
    if made.name in ("tril", "triu"):
        return _cut(made.name, made.of, made.argument(0, "diagonal"))
    return None


def _held(
    scope: Scope, name: str, at: ast.stmt | None, within: Function
) -> tuple[ast.expr, ast.stmt | None] | None:
    if at is not None:
        try:
            return scope.held(name, at)
        except CannotRewrite:
            return None
    values = [
        value
        for node in ast.walk(within)
        if isinstance(node, ast.stmt) and (value := plain_value(node, name)) is not None
    ]
    return (values[0], None) if len(values) == 1 else None


def _turned(
    scope: Scope, node: ast.expr, at: ast.stmt | None, within: Function, depth: int
) -> Found | None:
    """A comparison with 0 or 1, a negation, `1 - mask`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = node.comparators[0]
        value = number(other)
        if isinstance(other, ast.Constant) and isinstance(other.value, bool):
            value = float(other.value)
        equal = {ast.Eq: True, ast.NotEq: False, ast.Is: None}.get(type(node.ops[0]))
        if isinstance(node.ops[0], ast.Gt) and value == 0:
            equal = False
        found = _half(scope, node.left, at, within, depth + 1)
        if found is None or equal is None or value not in (0.0, 1.0):
            return None
        same = equal == (value == 1.0)
        return found if same else (OTHER[found[0]], found[1])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        found = _half(scope, node.operand, at, within, depth + 1)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and number(node.left) == 1:
        found = _half(scope, node.right, at, within, depth + 1)
    else:
        return None
    return None if found is None else (OTHER[found[0]], found[1])


def _cut(name: str, ones: ast.expr, diagonal: ast.expr | None) -> Found | None:
    """A half of ones: `torch.tril(torch.ones(n, n))`, `torch.ones((n, n)).triu(1)`."""
    offset = 0 if diagonal is None else whole(diagonal)
    half: Half | None = {("tril", 0): "lower", ("triu", 1): "upper"}.get((name, offset))  # type: ignore[assignment, arg-type]
    made = operation(ones)
    while made is not None and made.name in ("bool", "to", "float"):
        made = operation(made.of)
    if half is None or made is None or made.name not in ("ones", "full"):
        return None
    if made.name == "full":
        filled = made.argument(0, "fill_value")
        if not (isinstance(filled, ast.Constant) and filled.value is True):
            return None
        sizes = _elements((made.of,))
    else:
        sizes = _elements((made.of, *made.args))
    texts = [ast.unparse(each) for each in sizes]
    while len(texts) > 2 and texts[0] == "1":
        texts = texts[1:]
    return (half, (texts[0], texts[1])) if len(texts) == 2 else None


def _elements(sizes: tuple[ast.expr, ...]) -> list[ast.expr]:
    """The sizes that `ones(a, b)` and `ones((a, b))` are given."""
    if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple | ast.List):
        return list(sizes[0].elts)
    return list(sizes)


def _sliced(found: Found, index: ast.expr) -> Found | None:
    """`mask[:, :, :T, :T]`: the same half of a smaller square; None where it may not be."""
    parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    new = [each for each in parts if isinstance(each, ast.Constant) and each.value in (None, ...)]
    taken = [each for each in parts if each not in new]
    if any(not isinstance(each, ast.Slice) or each.lower or each.step for each in taken):
        return None
    ends = [each.upper for each in taken if isinstance(each, ast.Slice)]
    if all(each is None for each in ends):
        return found
    rows, columns = (ends[-2], ends[-1]) if len(ends) >= 2 else (None, None)
    if rows is None or columns is None or any(each is not None for each in ends[:-2]):
        return None
    return found[0], (ast.unparse(rows), ast.unparse(columns))
