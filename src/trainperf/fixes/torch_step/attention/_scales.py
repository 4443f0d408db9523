"""The factor of the scores, as the one number that the kernel takes."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention._calls import number, operation, whole
from trainperf.fixes.torch_step.attention._reading import Step
from trainperf.fixes.torch_step.attention._scope import Scope, called_name, own_attribute
from trainperf.source.statements import names_in

SIMPLE = ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript
TENSORS = ("Parameter", "tensor", "Tensor", "FloatTensor", "ones", "full", "zeros", "exp")


def scale(scope: Scope, steps: list[Step], tensors: tuple[str, ...]) -> str | None:
    """The scale as source, None where it is the kernel's own: 1/√ of the size of a head.

    `tensors` are queries and keys, as written. Raises `CannotRewrite` where the factor may be
    a tensor, or depends on a condition.
    """
    if any(step.test is not None for step in steps):
        raise CannotRewrite("the scores are scaled under a condition")
    if len(steps) == 1 and _own(scope, steps[0], tensors):
        return None
    text = ""
    for step in steps:
        factor = _number(scope, step.value, step.at)
        if step.kind == "over":
            text = f"{text or '1'} / {_in_brackets(factor)}"
        else:
            text = f"{text} * {_in_brackets(factor)}" if text else factor
    return text or "1.0"


def _in_brackets(text: str) -> str:
    return text if isinstance(ast.parse(text, mode="eval").body, SIMPLE) else f"({text})"


def _number(scope: Scope, node: ast.expr, at: ast.stmt) -> str:
    """A factor as source that gives a number; raises `CannotRewrite` where it may not."""
    made = node
    if isinstance(node, ast.Name):
        held = scope.held(node.id, at)
        made = node if held is None else held[0]
    name = own_attribute(node)
    if name:
        given = [value for value, _ in scope.attribute(name)]
        made = given[0] if len(given) == 1 else node
    for value in (made, node):
        if any(
            called_name(each) in TENSORS for each in ast.walk(value) if isinstance(each, ast.expr)
        ):
            raise CannotRewrite(f"the scale {ast.unparse(node)} may be a tensor")
    for each in ast.walk(node):
        given = [value for value, _ in scope.attribute(own_attribute(each))]
        if any(called_name(value) in TENSORS for value in given):
            raise CannotRewrite(f"the scale {ast.unparse(node)} may be a tensor")
    return scope.text(node)


def _own(scope: Scope, step: Step, tensors: tuple[str, ...]) -> bool:
    """Whether a step scales by 1/√ of the last dimension of queries or keys."""
    value, over = step.value, step.kind == "over"
    while not over and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        if number(value.left) != 1:
            return False
        value, over = value.right, True
    if isinstance(value, ast.Name):
        held = scope.held(value.id, step.at)
        value = held[0] if held is not None and not over else value
    power = -0.5
    if over:
        power = 0.5
        if called_name(value) == "sqrt" and isinstance(value, ast.Call) and len(value.args) == 1:
            return _size(scope, value.args[0], step.at, tensors)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow):
        return number(value.right) == power and _size(scope, value.left, step.at, tensors)
    return False


def _size(scope: Scope, node: ast.expr, at: ast.stmt, tensors: tuple[str, ...]) -> bool:
    """Whether a number is the last dimension of one of the tensors."""
    if isinstance(node, ast.Name):
        held = scope.held(node.id, at)
        if held is None:
            return False
        node, since = held
        if any(
            scope.changed(each, at) is not scope.changed(each, since) for each in names_in(node)
        ):
            return False
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        last = whole(node.slice) if isinstance(node.slice, ast.expr) else None
        shape = node.value.attr == "shape"
        return shape and last == -1 and ast.unparse(node.value.value) in tensors
    found = operation(node)
    if found is None or found.name != "size" or len(found.args) != 1:
        return False
    return whole(found.args[0]) == -1 and ast.unparse(found.of) in tensors
