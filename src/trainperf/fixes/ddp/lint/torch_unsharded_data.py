"""Ranks that all read the same data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument, starred
from trainperf.source.loops import DDP, LOADER, backward_loops
from trainperf.source.module import Module
from trainperf.source.rule import Rule

_SHARED = ("Sampler", "shard", "split_dataset_by_node", "rank::", "rank ::", "[rank", "Subset",
           "prepare(", "fabric")  # fmt: skip


class TorchUnshardedData(Rule):
    """A shuffling `DataLoader` without a sampler in a script that trains with DDP."""

    words = ("DistributedDataParallel",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if not any(module.calls(DDP)) or any(word in module.source for word in _SHARED):
            return
        if not backward_loops(module):
            return
        for call in module.calls(LOADER):
            shuffles = module.constant(argument(call, "shuffle", 2)) is True
            sampled = argument(call, "sampler", 3) or argument(call, "batch_sampler", 4)
            ranked = "rank" in ast.unparse(call)
            if shuffles and not sampled and not ranked and not starred(call):
                yield (
                    call,
                    (
                        "a DataLoader that shuffles, without a DistributedSampler, in a script "
                        "with DDP: every rank may go through the whole dataset, and an epoch "
                        "takes as many times longer as there are ranks"
                    ),
                )
