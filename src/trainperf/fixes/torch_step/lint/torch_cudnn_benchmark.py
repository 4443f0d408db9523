"""`cudnn.benchmark` switched off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module
from trainperf.source.rule import Rule, literal

_SWITCH = "torch.backends.cudnn.benchmark"
_ON_PURPOSE = ("determinis", "reproduc", "manual_seed", "seed")


class TorchCudnnBenchmark(Rule):
    """`torch.backends.cudnn.benchmark = False` in a file that does not ask to be repeatable."""

    words = ("benchmark",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if any(word in module.source.lower() for word in _ON_PURPOSE):
            return
        for node in module.nodes:
            if not isinstance(node, ast.Assign) or module.conditional(node):
                continue
            named = any(module.name(each) == _SWITCH for each in node.targets)
            if named and module.constant(node.value) is False:
                yield (
                    node,
                    (
                        "cudnn.benchmark = False: cuDNN chooses convolution kernels by rule of "
                        "thumb, which need not be the fastest; images of one size may gain"
                        " by True"
                    ),
                )

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        return literal(node.value, "True") if isinstance(node, ast.Assign) else None
