"""TF32 switched off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.module import Module
from trainperf.source.rule import Rule

_SWITCH = "torch.backends.cuda.matmul.allow_tf32"


class TorchMatmulPrecision(Rule):
    """`set_float32_matmul_precision("highest")` or `allow_tf32 = False`."""

    words = ("float32_matmul_precision", "allow_tf32")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        places: list[tuple[ast.AST, str]] = [
            (call, "set_float32_matmul_precision('highest')")
            for call in module.calls("torch.set_float32_matmul_precision")
            if module.constant(argument(call, "precision", 0)) == "highest"
        ]
        switched = [
            node
            for node in module.nodes
            if isinstance(node, ast.Assign)
            and any(module.name(each) == _SWITCH for each in node.targets)
        ]
        if all(module.constant(node.value) is False for node in switched):
            places += [(node, "allow_tf32 = False") for node in switched]
        for node, seen in places:
            if not module.conditional(node):
                yield (
                    node,
                    (
                        f"{seen}: from Ampere on, matrix products of float32 may be several times "
                        "as fast in TF32, with less precise factors"
                    ),
                )
