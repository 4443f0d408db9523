"""Slow ways to exchange gradients, chosen by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module
from trainperf.source.rule import Rule


class TfCrossDeviceOps(Rule):
    """A strategy with `ReductionToOneDevice` or `HierarchicalCopyAllReduce`."""

    words = ("cross_device_ops",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("tensorflow.distribute.MirroredStrategy"):
            for keyword in call.keywords:
                if keyword.arg != "cross_device_ops" or module.conditional(call):
                    continue
                made = module.value(keyword.value)
                name = module.name(made.func) if isinstance(made, ast.Call) else None
                if name in _SLOW:
                    short = (name or "").rpartition(".")[2]
                    yield (
                        call,
                        (
                            f"the strategy exchanges gradients by {short}, which does not use the "
                            "links between GPUs as NCCL does and may be slower"
                        ),
                    )


_SLOW = (
    "tensorflow.distribute.ReductionToOneDevice",
    "tensorflow.distribute.HierarchicalCopyAllReduce",
)
