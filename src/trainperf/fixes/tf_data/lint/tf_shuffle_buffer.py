"""Shuffle buffers that hold decoded samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of, reading
from trainperf.source.datasets import BATCHES, chain, is_dataset
from trainperf.source.module import Module
from trainperf.source.rule import Rule

MANY = 500
"""Samples in a buffer: of images of 224 × 224 in float32 they take 300 MB."""


class TfShuffleBuffer(Rule):
    """`Dataset.shuffle` of 500 samples or more after a `map` that reads files."""

    words = (".shuffle(",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("shuffle"):
            size = module.constant(argument(call, "buffer_size", 0))
            if not isinstance(size, int) or size < MANY or not is_dataset(module, call):
                continue
            stages = chain(module, call)
            ahead = stages.stages[:-1]
            names = stages.names()[:-1]
            if {"cache", "snapshot"} & set(names) or BATCHES & set(names):
                continue
            maps = [each for each, name in zip(ahead, names, strict=True) if name == "map"]
            functions = [function_of(module, each.args[0]) for each in maps if each.args]
            if any(each is not None and reading(module, each) for each in functions):
                yield (
                    call,
                    (
                        f"shuffle({size}) after a map that reads or decodes files: {size} decoded "
                        "samples are made and held before the first batch of every epoch, which "
                        "may take long; shuffle file names instead, ahead of the map"
                    ),
                )
