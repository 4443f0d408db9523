"""Functions of `Dataset.map` that go back to Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.bodies import PYTHON_OPS, function_of, python_op
from trainperf.source.datasets import is_dataset
from trainperf.source.module import Module
from trainperf.source.rule import Rule


class TfPyFunction(Rule):
    """`tf.py_function` or `tf.numpy_function` in a function given to `Dataset.map`."""

    words = ("py_func", "numpy_function")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if not any(module.calls(*PYTHON_OPS)):
            return
        seen = set()
        for call in module.methods("map"):
            function = function_of(module, call.args[0]) if call.args else None
            if function is None or not is_dataset(module, call):
                continue
            back = python_op(module, function)
            if back is not None and back not in seen:
                seen.add(back)
                yield (
                    back,
                    (
                        f"{module.name(back.func)} in a function given to map: its Python code "
                        "runs under the interpreter's lock, one call at a time, and may hold the "
                        "pipeline up; TensorFlow ops run on all cores"
                    ),
                )
