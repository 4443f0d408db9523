"""Cheap functions that are called for each sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.bodies import function_of
from trainperf.source.datasets import chain, is_dataset, stage_name
from trainperf.source.module import Module
from trainperf.source.rule import Rule

_BETWEEN = {"shuffle", "repeat", "prefetch", "cache", "take", "skip", "shard"}
_CHEAP = {"tensorflow.cast", "float", "int"}


class TfVectorisedMap(Rule):
    """`.map(f).batch(n)` over arrays, where `f` only casts and scales."""

    words = ("from_tensor_slices",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("batch"):
            if not is_dataset(module, call):
                continue
            stages = chain(module, call).stages[:-1]
            names = tuple(map(stage_name, stages))
            if not names or names[0] != "from_tensor_slices" or names.count("map") != 1:
                continue
            mapped = stages[names.index("map")]
            if set(names[1:]) - _BETWEEN - {"map"} or not mapped.args:
                continue
            function = function_of(module, mapped.args[0])
            result = _result(function)
            if result is not None and _is_cheap(module, result):
                yield (
                    mapped,
                    (
                        "map before batch, with a function that only casts and scales: calling it "
                        "for each sample may cost more than its arithmetic; after batch it is "
                        "called once per batch"
                    ),
                )


def _result(function: ast.AST | None) -> ast.expr | None:
    if isinstance(function, ast.Lambda):
        return function.body
    if isinstance(function, ast.FunctionDef) and len(function.body) == 1:
        only = function.body[0]
        return only.value if isinstance(only, ast.Return) else None
    return None


def _is_cheap(module: Module, node: ast.expr) -> bool:
    works = False
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            if module.name(each.func) not in _CHEAP:
                return False
            works = True
        elif isinstance(each, ast.BinOp):
            if isinstance(each.op, ast.MatMult):
                return False
            works = True
        elif not isinstance(each, _PLAIN):
            return False
    return works


_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.operator, ast.expr_context,
          ast.UnaryOp, ast.unaryop, ast.keyword)  # fmt: skip
