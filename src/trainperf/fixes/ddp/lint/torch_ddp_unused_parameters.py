"""DDP that searches for unused parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.loops import DDP
from trainperf.source.module import Module
from trainperf.source.rule import Rule


class TorchDdpUnusedParameters(Rule):
    """`DistributedDataParallel(find_unused_parameters=True)`."""

    words = ("find_unused_parameters",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(DDP):
            searches = module.constant(argument(call, "find_unused_parameters")) is True
            if searches and argument(call, "static_graph") is None:
                yield (
                    call,
                    (
                        "find_unused_parameters=True: DDP walks over the whole graph before each "
                        "backward, which may be in vain if every step uses all parameters"
                    ),
                )
