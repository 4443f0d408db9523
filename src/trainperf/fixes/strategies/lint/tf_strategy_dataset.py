"""Whole batches given to every replica."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.datasets import is_dataset
from trainperf.source.loops import iterated, targets
from trainperf.source.module import Module
from trainperf.source.rule import Rule
from trainperf.source.statements import names_in


class TfStrategyDataset(Rule):
    """`strategy.run` with a batch of a dataset that is not distributed."""

    words = (".run(",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("run"):
            given = argument(call, "args", 1)
            loops = module.loops(call)
            if given is None or not loops or not isinstance(loops[0], ast.For):
                continue
            if not names_in(given) & targets(loops[0]):
                continue
            if any(is_dataset(module, each) for each in iterated(loops[0])):
                yield (
                    call,
                    (
                        "run gets a batch of a dataset that is not distributed: every replica may "
                        "compute all of it; experimental_distribute_dataset gives each its part"
                    ),
                )
