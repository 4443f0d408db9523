"""`CUDA_LAUNCH_BLOCKING` set by the script."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module
from trainperf.source.rule import Rule
from trainperf.source.statements import variables


class TorchLaunchBlocking(Rule):
    """`os.environ["CUDA_LAUNCH_BLOCKING"] = "1"`."""

    words = ("CUDA_LAUNCH_BLOCKING",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for node, name, value in variables(module):
            if name == "CUDA_LAUNCH_BLOCKING" and value not in ("", "0"):
                yield (
                    node,
                    (
                        f"CUDA_LAUNCH_BLOCKING is {value}: Python waits for each kernel to end "
                        "before it starts the next, and the GPU may stand idle in between"
                    ),
                )
