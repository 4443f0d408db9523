"""The masks of the scores, as the arguments that the kernel takes."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention._calls import number
from trainperf.fixes.torch_step.attention._reading import Step
from trainperf.fixes.torch_step.attention._scope import Scope
from trainperf.fixes.torch_step.attention._triangles import hides_later

HIDDEN = -1e4
"""A score of this and less counts for nothing beside any other: e to the -10000 is 0."""

SURE = -1e9
"""Added to a score in float32, this or less leaves nothing of it: rows that are hidden whole
have equal weights then, as where it was put in its place."""

ATOM = ast.Name | ast.Attribute | ast.Subscript | ast.Call


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
        return hides_later(self.scope, step.value, step.at)

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
        try:
            held = self.scope.held(step.fill.id, step.at)
        except CannotRewrite:
            held = None
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
