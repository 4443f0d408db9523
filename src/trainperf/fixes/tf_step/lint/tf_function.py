"""Custom training loops that run operation by operation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.loops import tapes
from trainperf.source.module import Module
from trainperf.source.rule import Rule
from trainperf.source.scopes import FUNCTIONS, Function


class TfFunction(Rule):
    """A `tf.GradientTape` step that a loop runs without `tf.function`."""

    words = ("GradientTape",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        updates = list(module.methods("apply_gradients", "apply"))
        seen = set()
        for tape in tapes(module):
            function = module.function(tape)
            if isinstance(function, ast.Lambda) or _compiled(module, function):
                continue
            if not any(module.function(each) is function for each in updates):
                continue
            runner = None if function is None else _runner(module, function)
            if function is not None and runner is not None:
                inner = _called_in_loop(module, runner)
                if inner is not None and not _compiled(module, runner) and runner not in seen:
                    seen.add(runner)
                    calls = f"a loop calls {runner.name}, and that {function.name}, with a Gradient"
                    yield runner, _TEXT.format(f"{calls}Tape,")
                continue
            inner = tape if function is None else _called_in_loop(module, function)
            if module.loops(tape):
                yield tape, _TEXT.format("a loop runs this GradientTape step")
            elif inner is not None and function is not None and function not in seen:
                seen.add(function)
                yield function, _TEXT.format(f"a loop calls {function.name}, with a GradientTape,")


_TEXT = (
    "{} without tf.function: Python then starts every operation one by one, which may take "
    "longer than the arithmetic; `@tf.function` traces the step once"
)


def _compiled(module: Module, function: Function | None) -> bool:
    if function is None:
        return False
    around = (function, *module.around(function))
    if any(isinstance(f, FUNCTIONS) and f.decorator_list for f in around):
        return True
    if isinstance(module.parent(function), ast.ClassDef) and function.name == "train_step":
        return True
    for node in module.nodes:
        mentioned = (isinstance(node, ast.Name) and node.id == function.name) or (
            isinstance(node, ast.Attribute) and node.attr == function.name
        )
        above = module.parent(node)
        if mentioned and not (isinstance(above, ast.Call) and _called(above) is node):
            return True
        caller = module.function(node) if mentioned else None
        if caller is not None and caller is not function and _decorated(caller):
            return True
    return False


def _called(call: ast.Call) -> ast.expr:
    """Return the function that a call calls: of `strategy.run(step, …)` the step."""
    run = isinstance(call.func, ast.Attribute) and call.func.attr == "run" and call.args
    return call.args[0] if run else call.func


def _runner(module: Module, function: Function) -> Function | None:
    """Return the function that lets a strategy run `function`, if one does outside a loop."""
    for call in module.methods("run"):
        target = _called(call)
        if isinstance(target, ast.Name) and module.definition(target) is function:
            around = module.function(call)
            return around if isinstance(around, FUNCTIONS) and not module.loops(call) else None
    return None


def _decorated(function: Function | ast.Lambda) -> bool:
    return isinstance(function, ast.Lambda) or bool(function.decorator_list)


def _called_in_loop(module: Module, function: Function) -> ast.AST | None:
    for call in module.methods(function.name):
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            own = call.func.value.id == "self"
            if own and module.loops(call) and isinstance(module.parent(function), ast.ClassDef):
                return call
    for node in module.nodes:
        if (
            isinstance(node, ast.Call)
            and module.definition(_called(node)) is function
            and module.loops(node)
        ):
            return node
    return None
