"""Keras in debugging mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.module import Module
from trainperf.source.rule import Rule, literal

_GLOBAL = (
    "tensorflow.config.run_functions_eagerly",
    "tensorflow.config.experimental_run_functions_eagerly",
)
_TEXT = (
    "{}: Python then runs the training step operation by operation, which may take several "
    "times as long as the compiled step"
)


class KerasRunEagerly(Rule):
    """`compile(run_eagerly=True)`, `model.run_eagerly = True` or `run_functions_eagerly(True)`."""

    words = ("run_eagerly", "functions_eagerly")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if "keras" in module.source:
            for call in module.methods("compile"):
                eager = argument(call, "run_eagerly")
                if module.constant(eager) is True and not module.conditional(call):
                    yield call, _TEXT.format("compile(run_eagerly=True)")
            for node in module.nodes:
                if isinstance(node, ast.Assign) and _sets(module, node):
                    yield node, _TEXT.format("run_eagerly = True")
        switches = list(module.calls(*_GLOBAL))
        given = [module.constant(argument(call, "run_eagerly", 0)) for call in switches]
        if all(each is True for each in given):
            for call in switches:
                if not module.conditional(call):
                    yield call, _TEXT.format("run_functions_eagerly(True)")

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        if isinstance(node, ast.Assign):
            return literal(node.value, "False")
        if not isinstance(node, ast.Call):
            return None
        return literal(argument(node, "run_eagerly") or next(iter(node.args), None), "False")


def _sets(module: Module, node: ast.Assign) -> bool:
    target = node.targets[0]
    return (
        isinstance(target, ast.Attribute)
        and target.attr == "run_eagerly"
        and not (isinstance(target.value, ast.Name) and target.value.id == "self")
        and module.constant(node.value) is True
        and not module.conditional(node)
    )
