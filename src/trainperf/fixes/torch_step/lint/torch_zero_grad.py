"""Gradients that are filled with zeros."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.module import Module
from trainperf.source.rule import Rule, literal


class TorchZeroGrad(Rule):
    """`zero_grad(set_to_none=False)` in a training loop."""

    words = ("zero_grad",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if "torch" not in module.source:
            return
        for call in module.methods("zero_grad"):
            kept = module.constant(argument(call, "set_to_none", 0)) is False
            if kept and module.loops(call):
                yield (
                    call,
                    (
                        "zero_grad(set_to_none=False) writes zeros into every gradient, and the "
                        "backward adds to them: both may take time that the default does not"
                    ),
                )

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        if not isinstance(node, ast.Call):
            return None
        return literal(argument(node, "set_to_none", 0), "True")
