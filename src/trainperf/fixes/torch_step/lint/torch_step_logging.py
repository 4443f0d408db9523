"""Calls that make Python wait for the device in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import handed
from trainperf.source.bodies import function_of
from trainperf.source.loops import backward_loops, lightning_classes, targets
from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule
from trainperf.source.scopes import Loop
from trainperf.source.statements import names_in

_READS = {"item", "cpu", "tolist", "numpy"}


class TorchStepLogging(Rule):
    """The loss of a training loop read by `.item()`, `float` or `print` in every step."""

    words = (".backward(", "training_step")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for loop in backward_loops(module):
            losses = _losses(loop) - targets(loop)
            found = sorted(
                (
                    (node.lineno, node.col_offset, node, read)
                    for node in inside(loop)
                    if isinstance(node, ast.Call) and (read := _reads(module, node, losses))
                    if module.loops(node)[:1] == [loop] and not _now_and_then(module, node, loop)
                ),
                key=lambda each: each[:2],
            )
            if found:
                *_, node, read = found[0]
                yield node, f"{read} {_TEXT}"
        for step in _lightning_steps(module):
            reads = [
                (node, read)
                for node in inside(step)
                if isinstance(node, ast.Call) and not module.conditional(node)
                if (read := _reads(module, node, _returned(step)))
            ]
            if reads:
                node, read = min(reads, key=lambda each: (each[0].lineno, each[0].col_offset))
                yield node, f"{read} {_TEXT}"


_TEXT = (
    "in every step: Python waits until the device has computed it, and a GPU may then stand idle "
    "until the next kernels are started; log every 50 steps, and keep sums as tensors"
)


def _lightning_steps(module: Module) -> Iterator[ast.FunctionDef]:
    for owner in lightning_classes(module):
        for each in owner.body:
            if isinstance(each, ast.FunctionDef) and each.name == "training_step":
                yield each


def _returned(step: ast.FunctionDef) -> set[str]:
    """Return the names that a `training_step` gives back as its loss."""
    found: set[str] = set()
    for each in inside(step):
        value = each.value if isinstance(each, ast.Return) else None
        listed = value.values if isinstance(value, ast.Dict) else [value]
        found |= {one.id for one in listed if isinstance(one, ast.Name)}
    return found - {each.arg for each in step.args.args}


def _losses(loop: Loop) -> set[str]:
    """Return the names on which `.backward()` is called, directly or scaled."""
    found: set[str] = set()
    for node in inside(loop):
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr == "backward":
            assert isinstance(node, ast.Call)
            found |= {name for each in (method.value, *node.args) for name in names_in(each)}
    return found


def _reads_inside(
    module: Module, call: ast.Call, function: ast.AST, losses: set[str]
) -> str | None:
    """Return what a function of this file that gets the loss reads of it, if it always does."""
    if not isinstance(function, ast.FunctionDef):
        return None
    given = handed(function, call)
    inner = {name for name, v in given if isinstance(v, ast.Name) and v.id in losses}
    if not inner or any(isinstance(each, ast.Return) for each in inside(function)):
        return None
    for node in inside(function):
        if isinstance(node, ast.Call) and not module.conditional(node):
            read = _reads(module, node, inner, deeper=False)
            if read is not None:
                return f"{function.name} calls {read}"
    return None


def _reads(module: Module, call: ast.Call, losses: set[str], deeper: bool = True) -> str | None:
    if isinstance(call.func, ast.Attribute) and call.func.attr in _READS and not call.args:
        value = call.func.value
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value
        if isinstance(value, ast.Name) and value.id in losses:
            return f"{value.id}.{call.func.attr}()"
    if deeper and (local := function_of(module, call.func)) is not None:
        return _reads_inside(module, call, local, losses)
    if module.name(call.func) in ("float", "print"):
        for each in call.args:
            if isinstance(each, ast.Name) and each.id in losses:
                return f"{module.name(call.func)}({each.id})"
    return None


def _now_and_then(module: Module, node: ast.AST, loop: Loop) -> bool:
    """Whether a condition, or an early `continue`, keeps `node` from some of the steps."""
    if module.conditional(node, loop):
        return True
    return any(
        isinstance(each, ast.Continue) and each.lineno < getattr(node, "lineno", 0)
        for each in inside(loop)
    )
