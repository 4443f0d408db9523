"""`.batch(n).shuffle(k)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.datasets import BATCHES, chain, is_dataset
from trainperf.source.module import Module
from trainperf.source.rule import Rule


class TfBatchBeforeShuffle(Rule):
    """`Dataset.shuffle` of whole batches, of samples that were not shuffled before."""

    words = (".shuffle(",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("shuffle"):
            if not is_dataset(module, call):
                continue
            stages = chain(module, call)
            names = stages.names()[:-1]
            batched = [number for number, name in enumerate(names) if name in BATCHES]
            if not stages.whole or not batched:
                continue
            mixed = {"shuffle", "list_files", "bucket_by_sequence_length"} & set(names)
            if not mixed and not {"unbatch", "flat_map", "window"} & set(names):
                yield (
                    call,
                    (
                        "shuffle after batch: whole batches are shuffled, so the same samples stay "
                        "together in every epoch and training may need more of them; the buffer "
                        "holds batches, and may take long to fill"
                    ),
                )
