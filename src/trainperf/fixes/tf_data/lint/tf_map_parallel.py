"""`Dataset.map` that TensorFlow does not parallelise by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument, starred
from trainperf.source.bodies import drawing, function_of, python_op
from trainperf.source.datasets import is_dataset
from trainperf.source.module import Module
from trainperf.source.rule import Rule


class TfMapParallel(Rule):
    """`Dataset.map` without `num_parallel_calls`, whose function draws random numbers.

    TensorFlow 2.13 and later parallelise every other `map` by themselves.
    """

    words = ("random",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("map"):
            if starred(call) or not call.args:
                continue
            parallel = argument(call, "num_parallel_calls", 1)
            if parallel is not None and module.constant(parallel) not in (None, 1):
                continue
            function = function_of(module, call.args[0])
            if function is None or not is_dataset(module, call):
                continue
            drawn = drawing(module, function)
            if drawn and python_op(module, function) is None:
                yield (
                    call,
                    (
                        f"map without num_parallel_calls, whose function calls {drawn}: TensorFlow "
                        "does not parallelise a random function by itself, so the pipeline may use "
                        "one core only; `num_parallel_calls=tf.data.AUTOTUNE` lets it use more"
                    ),
                )
