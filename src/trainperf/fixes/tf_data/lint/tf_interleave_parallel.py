"""`Dataset.interleave` that reads one file at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument, starred
from trainperf.source.bodies import function_of
from trainperf.source.datasets import is_dataset
from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule

_READERS = {
    "tensorflow.data.TFRecordDataset",
    "tensorflow.data.TextLineDataset",
    "tensorflow.data.FixedLengthRecordDataset",
    "tensorflow.data.experimental.CsvDataset",
}


class TfInterleaveParallel(Rule):
    """`Dataset.interleave` over files without `num_parallel_calls`."""

    words = ("interleave",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("interleave"):
            parallel = argument(call, "num_parallel_calls", 3)
            if starred(call) or not call.args or not is_dataset(module, call):
                continue
            if parallel is None and self._reads(module, call.args[0]):
                yield (
                    call,
                    (
                        "interleave over files without num_parallel_calls: it reads one block at a "
                        "time, and the model may wait for the disk or the network each time"
                    ),
                )

    def _reads(self, module: Module, node: ast.expr) -> bool:
        if module.name(node) in _READERS:
            return True
        function = function_of(module, node)
        return function is not None and any(
            isinstance(each, ast.Call) and module.name(each.func) in _READERS
            for each in inside(function)
        )
