"""Cells in a loop where a layer would do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.module import Module
from trainperf.source.rule import Rule


class RnnCellWrapped(Rule):
    """`RNN(LSTMCell(…))` or `RNN(GRUCell(…))` of Keras."""

    words = ("LSTMCell", "GRUCell")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("keras.layers.RNN"):
            given = argument(call, "cell", 0)
            cell = module.value(given) if given is not None else None
            name = module.name(cell.func) if isinstance(cell, ast.Call) else None
            if name in ("keras.layers.LSTMCell", "keras.layers.GRUCell"):
                short = (name or "").rpartition(".")[2]
                yield (
                    call,
                    (
                        f"RNN({short}) runs the cell in a loop over the time steps; on a GPU the "
                        f"layer {short.removesuffix('Cell')} computes the same with cuDNN and may "
                        "be many times as fast"
                    ),
                )
