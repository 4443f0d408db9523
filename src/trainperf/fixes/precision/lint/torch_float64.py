"""PyTorch in float64."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.loops import backward_loops
from trainperf.source.module import Module
from trainperf.source.rule import Rule


class TorchFloat64(Rule):
    """`set_default_dtype(torch.float64)` in a file that trains."""

    words = ("set_default_",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("torch.set_default_dtype", "torch.set_default_tensor_type"):
            given = argument(call, "d", 0) or argument(call, "t", 0)
            double = given is not None and module.name(given) in _DOUBLE
            if double and backward_loops(module) and not module.conditional(call):
                yield (
                    call,
                    (
                        "float64 by default: the model may run at half the speed of float32 on a "
                        "CPU, and far below on most GPUs"
                    ),
                )


_DOUBLE = ("torch.float64", "torch.double", "torch.DoubleTensor", "torch.cuda.DoubleTensor")
