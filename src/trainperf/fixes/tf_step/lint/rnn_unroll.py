"""Recurrent layers with one cell per time step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.module import Module
from trainperf.source.rule import Rule, literal


class RnnUnroll(Rule):
    """`LSTM`, `GRU`, `SimpleRNN` or `RNN` of Keras with `unroll=True`."""

    words = ("unroll",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(
            *(f"keras.layers.{n}" for n in ("LSTM", "GRU", "SimpleRNN", "RNN"))
        ):
            if module.constant(argument(call, "unroll")) is True:
                yield (
                    call,
                    (
                        "unroll=True puts a copy of the cell into the graph for each time step: "
                        "long sequences may take minutes to compile, and cuDNN cannot be used"
                    ),
                )

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        return literal(argument(node, "unroll"), "False") if isinstance(node, ast.Call) else None
