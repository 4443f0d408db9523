"""TensorFlow and Keras in float64."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.loops import fits
from trainperf.source.module import Module
from trainperf.source.rule import Rule

_FLOATX = ("keras.backend.set_floatx", "keras.config.set_floatx")
_DOUBLE = {"float", "numpy.float64", "numpy.double", "tensorflow.float64"}


class Float64Input(Rule):
    """`set_floatx("float64")`, or an array cast to float64 for `fit`."""

    words = ("floatx", "astype")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(*_FLOATX):
            double = module.constant(argument(call, "floatx", 0)) == "float64"
            if double and not module.conditional(call):
                yield (
                    call,
                    (
                        "set_floatx('float64'): the model computes in float64, which may take "
                        "twice as long as float32 on a CPU, and far longer on most GPUs"
                    ),
                )
        if "sklearn" in module.source or "xgboost" in module.source:
            return
        for fit in fits(module):
            given = argument(fit, "x", 0)
            cast = _cast(module, given) if given is not None else None
            if cast is not None:
                yield (
                    cast,
                    (
                        "the input of fit is cast to float64: batches have twice the bytes, and "
                        "Keras layers cast them to float32 in any case, which may take time"
                    ),
                )


def _cast(module: Module, node: ast.expr) -> ast.Call | None:
    node = module.value(node)
    while isinstance(node, ast.BinOp):
        node = module.value(node.left)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    kind = argument(node, "dtype", 0)
    if node.func.attr != "astype" or kind is None:
        return None
    double = module.constant(kind) in ("float64", "float", "double") or module.name(kind) in _DOUBLE
    return node if double else None
