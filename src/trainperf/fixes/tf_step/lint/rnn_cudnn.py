"""Arguments that keep recurrent layers from cuDNN."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.module import UNKNOWN, Module
from trainperf.source.rule import Rule


class RnnCudnn(Rule):
    """`LSTM` or `GRU` of Keras with an argument that cuDNN does not support."""

    words = ("LSTM", "GRU")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("keras.layers.LSTM", "keras.layers.GRU"):
            if module.constant(argument(call, "use_cudnn")) is False:
                continue
            wrong = [text for each in _WANTED if (text := _wrong(module, call, *each))]
            if wrong:
                yield (
                    call,
                    (
                        f"{', '.join(wrong)}: cuDNN cannot be used, so on a GPU the layer runs as "
                        "a loop over the time steps, which may take many times as long"
                    ),
                )


_WANTED = (
    ("activation", 1, ("tanh",)),
    ("recurrent_activation", 2, ("sigmoid",)),
    ("use_bias", 3, (True,)),
    ("recurrent_dropout", None, (0, 0.0)),
    ("reset_after", None, (True,)),
)


def _wrong(
    module: Module, call: ast.Call, name: str, position: int | None, wanted: tuple[object, ...]
) -> str | None:
    value = module.constant(argument(call, name, position))
    if value is UNKNOWN or value in wanted:
        return None
    return f"{name}={value!r}"
