"""TensorFlow's threads, limited by the script."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module
from trainperf.source.rule import Rule
from trainperf.source.statements import variables


class TfIntraOpThreads(Rule):
    """`TF_NUM_INTRAOP_THREADS` set to 1 by the script itself."""

    words = ("TF_NUM_INTRAOP_THREADS",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for node, name, value in variables(module):
            if name == "TF_NUM_INTRAOP_THREADS" and value == "1":
                yield (
                    node,
                    (
                        "TF_NUM_INTRAOP_THREADS is 1: each operation runs on one core, and the "
                        "others may stand idle where the model computes on the CPU"
                    ),
                )
