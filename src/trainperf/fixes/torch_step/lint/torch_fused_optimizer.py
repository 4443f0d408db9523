"""Optimizers that update tensor by tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.module import Module
from trainperf.source.rule import Rule, literal

_HAVE_IT = ("Adam", "AdamW", "SGD", "Adagrad")


class TorchFusedOptimizer(Rule):
    """An optimizer with `foreach=False` that could be fused."""

    words = ("foreach",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(*(f"torch.optim.{name}" for name in _HAVE_IT)):
            alone = module.constant(argument(call, "foreach")) is False
            other = argument(call, "fused") is not None or argument(call, "differentiable")
            if alone and not other:
                yield (
                    call,
                    (
                        "foreach=False: the optimizer walks over the weights tensor by tensor, "
                        "with several kernels for each, which may take longer than one fused update"
                    ),
                )

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        given = node.keywords if isinstance(node, ast.Call) else []
        own = (one for one in given if one.arg == "foreach" and literal(one.value, ""))
        return next(((one, "fused=True") for one in own), None)
