"""The masks of the scores, as the arguments that the kernel takes."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention._calls import (
    Scope,
    number,
    operation,
    own_attribute,
    plain_value,
    whole,
)
from trainperf.fixes.torch_step.attention._reading import Step
from trainperf.source.statements import Function

HIDDEN = -1e4
"""A score of this and less counts for nothing beside any other: e to the -10000 is 0."""

SURE = -1e9
"""Added to a score in float32, this or less leaves nothing of it: rows that are hidden whole
have equal weights then, as where it was put in its place."""

ATOM = ast.Name | ast.Attribute | ast.Subscript | ast.Call

_Sides = tuple[str, str]
"""The sizes of a mask, as source."""
_PASSING = ("bool", "to", "view", "unsqueeze", "float", "contiguous", "type", "reshape", "byte")
_JOINS = ("cat", "concat", "concatenate")
_DEEPEST = 8


class Masks:
    """The masks of scores, and the terms added to them, read from their steps.

    `dtype` is source that gives the type of the queries. `torch` is the module's name.
    """

    def __init__(self, scope: Scope, dtype: str, torch: str) -> None:
        self.scope, self.dtype, self.torch = scope, dtype, torch

    def argument(self, steps: list[Step]) -> str:
        """The argument, such as `is_causal=True`, '' for none; raises `CannotRewrite`."""
        if not steps:
            return ""
        tests = [step for step in steps if step.test is not None]
        if len(tests) > 1:
            raise CannotRewrite("its masks stand under several conditions")
        if len(steps) == 1 and self._causal(steps[0]):
            test = steps[0].test
            return f"is_causal={'True' if test is None else self._truth(test)}"
        if not tests:
            return f"attn_mask={self._joined(steps)}"
        (under,) = tests
        always = [step for step in steps if step is not under]
        other = self._joined(always) if always else "None"
        if always and not all(self._boolean(step) for step in steps):
            raise CannotRewrite("its masks stand under several conditions")
        return f"attn_mask={self._joined(steps)} if {self._test(under)} else {other}"

    def _test(self, step: Step) -> str:
        assert step.test is not None
        return self.scope.text(step.test)

    def _truth(self, test: ast.expr) -> str:
        """A condition as the bool that the kernel wants."""
        text = self.scope.text(test)
        sure = isinstance(test, ast.Compare) or (
            isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        )
        return text if sure else f"bool({text})"

    def _causal(self, step: Step) -> bool:
        if step.kind != "hide" or not self._hidden(step, HIDDEN):
            return False
        return _hides_later(self.scope, step.value, step.at)

    def _boolean(self, step: Step) -> bool:
        return step.kind == "hide" and self._filled(step) == float("-inf")

    def _joined(self, steps: list[Step]) -> str:
        """One mask of all steps: what may be seen, or what is added."""
        if all(self._boolean(step) for step in steps):
            texts = [self._seen(step) for step in steps]
            return texts[0] if len(texts) == 1 else " & ".join(map(_for_and, texts))
        added = ""
        for step in steps:
            added = self._added(step, added)
        simple = isinstance(ast.parse(added, mode="eval").body, ATOM)
        return f"{added if simple else f'({added})'}.to({self.dtype})"

    def _seen(self, step: Step) -> str:
        """A condition that is true where a score counts."""
        node = step.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            return self.scope.text(node.operand)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sign = {ast.Eq: "!=", ast.NotEq: "=="}.get(type(node.ops[0]))
            if sign is not None:
                other = self.scope.text(node.comparators[0])
                return f"{self.scope.text(node.left)} {sign} {other}"
        text = self.scope.text(node)
        return f"~{text}" if isinstance(node, ATOM) else f"~({text})"

    def _added(self, step: Step, before: str) -> str:
        """The sum of `before` ('' for nothing) and the next term of the scores."""
        text = self.scope.text(step.value)
        if step.kind == "hide":
            if not self._hidden(step, SURE):
                raise CannotRewrite("what it puts in place of hidden scores is not surely small")
            assert step.fill is not None
            return f"{self.torch}.where({text}, {self.scope.text(step.fill)}, {before or '0.0'})"
        if isinstance(step.value, ast.Constant):
            raise CannotRewrite("a number is added to the scores")
        text = text if isinstance(step.value, ATOM) else f"({text})"
        return f"{before} + {text}" if before else self.scope.text(step.value)

    def _filled(self, step: Step) -> float | None:
        """The number that is put in place of hidden scores; None where it is not told."""
        return number(self._resolved(step))

    def _hidden(self, step: Step, least: float) -> bool:
        filled = self._filled(step)
        return filled is not None and filled <= least

    def _resolved(self, step: Step) -> ast.expr:
        """The value in place of hidden scores, a name followed to what it holds."""
        assert step.fill is not None
        if not isinstance(step.fill, ast.Name):
            return step.fill
        held = self.scope.held(step.fill.id, step.at)
        if held is not None:
            return held[0]
        top = [
            each.value
            for each in self.scope.source.tree.body
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == step.fill.id
        ]
        return top[0] if len(top) == 1 else step.fill


def _for_and(text: str) -> str:
    node = ast.parse(text, mode="eval").body
    return f"({text})" if isinstance(node, ast.Compare | ast.BoolOp) else text


def _hides_later(scope: Scope, node: ast.expr, at: ast.stmt) -> bool:
    """Whether a condition is true above the diagonal of a square, and nowhere else.

    `self.bias[…, :T, :T] == 0` and `~mask` of a lower triangle of ones, or an upper one itself.

    Never where keys of earlier calls may be put before those of this one.
    """
    for each in ast.walk(scope.function):
        word = each.id if isinstance(each, ast.Name) else getattr(each, "arg", None)
        if isinstance(word, str) and ("cache" in word or "past" in word):
            return False
        if isinstance(each, ast.Call) and getattr(each.func, "attr", "") in _JOINS:
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
) -> _Sides | None:
    """The sides of a mask that is 1 in one half, "tril" with the diagonal or "triu" without.

    None where that is not told.

    `at` is the statement in the function that attends; None in another method, `within`.
    """
    if depth > _DEEPEST:
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
    if made is not None and made.name in _PASSING:
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


def _sliced(sides: _Sides, index: ast.expr) -> _Sides | None:
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
