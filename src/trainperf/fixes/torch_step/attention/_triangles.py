"""Whether a mask is the one that hides later positions, as far as its making shows."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention._calls import number, operation, whole
from trainperf.fixes.torch_step.attention._scope import Scope, own_attribute, plain_value
from trainperf.source.statements import Function

Sides = tuple[str, str]
"""The sizes of a mask, as source."""
PASSING = ("bool", "to", "view", "unsqueeze", "float", "contiguous", "type", "reshape", "byte")
JOINS = ("cat", "concat", "concatenate")
DEEPEST = 8


def hides_later(scope: Scope, node: ast.expr, at: ast.stmt) -> bool:
    """Whether a condition is true above the diagonal of a square, and nowhere else.

    `self.bias[…, :T, :T] == 0` and `~mask` of a lower triangle of ones, or an upper one itself.

    Never where keys of earlier calls may be put before those of this one.
    """
    for each in ast.walk(scope.function):
        word = each.id if isinstance(each, ast.Name) else getattr(each, "arg", None)
        if isinstance(word, str) and ("cache" in word or "past" in word):
            return False
        if isinstance(each, ast.Call) and getattr(each.func, "attr", "") in JOINS:
            return False
    if isinstance(node, ast.Name):
        node, at = scope.held(node.id, at) or (node, at)
    half, made = "triu", operation(node)
    if isinstance(node, ast.Compare):
        if not isinstance(node.ops[0], ast.Eq) or number(node.comparators[0]) != 0:
            return False
        half, node = "tril", node.left
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        half, node = "tril", node.operand
    elif made is not None and made.name == "logical_not":
        half, node = "tril", made.of
    sides = _ones(half, scope, node, at, scope.function, 0)
    return sides is not None and sides[0] == sides[1]


def _ones(
    half: str, scope: Scope, node: ast.expr, at: ast.stmt | None, within: Function, depth: int
) -> Sides | None:
    """The sides of a mask that is 1 in one half, "tril" with the diagonal or "triu" without.

    None where that is not told.

    `at` is the statement in the function that attends; None in another method, `within`.
    """
    if depth > DEEPEST:
        return None
    if isinstance(node, ast.Name):
        held = _held(scope, node.id, at, within)
        return None if held is None else _ones(half, scope, held[0], held[1], within, depth + 1)
    if own_attribute(node):
        given = scope.attribute(own_attribute(node))
        value, method = given[0] if len(given) == 1 else (None, within)
        return None if value is None else _ones(half, scope, value, None, method, depth + 1)
    if isinstance(node, ast.Subscript):
        sides = _ones(half, scope, node.value, at, within, depth + 1)
        return None if sides is None else _sliced(sides, node.slice)
    made = operation(node)
    if made is not None and made.name in PASSING:
        return _ones(half, scope, made.of, at, within, depth + 1)
    if made is None or made.name != half:
        return None
    diagonal = made.argument(0, "diagonal")
    if (0 if diagonal is None else whole(diagonal)) != (half == "triu"):
        return None
    ones = operation(made.of)
    if ones is None or ones.name != "ones":
        return None
    texts = [ast.unparse(each) for each in _elements((ones.of, *ones.args))]
    while len(texts) > 2 and texts[0] == "1":
        texts = texts[1:]
    return (texts[0], texts[1]) if len(texts) == 2 else None


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


def _elements(sizes: tuple[ast.expr, ...]) -> list[ast.expr]:
    """The sizes that `ones(a, b)` and `ones((a, b))` are given."""
    if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple | ast.List):
        return list(sizes[0].elts)
    return list(sizes)


def _sliced(sides: Sides, index: ast.expr) -> Sides | None:
    """`mask[:, :, :T, :T]`: the triangle of a smaller square; None where it may not be."""
    parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    new = [each for each in parts if isinstance(each, ast.Constant) and each.value in (None, ...)]
    taken = [each for each in parts if each not in new]
    if any(not isinstance(each, ast.Slice) or each.lower or each.step for each in taken):
        return None
    ends = [each.upper for each in taken if isinstance(each, ast.Slice)]
    if all(each is None for each in ends):
        return sides
    rows, columns = (ends[-2], ends[-1]) if len(ends) >= 2 else (None, None)
    if rows is None or columns is None or any(each is not None for each in ends[:-2]):
        return None
    return ast.unparse(rows), ast.unparse(columns)
