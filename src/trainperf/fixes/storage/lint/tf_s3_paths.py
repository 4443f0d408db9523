"""`s3://` given to TensorFlow."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module
from trainperf.source.rule import Rule

_PREFIXES = (
    "tensorflow.io.", "tensorflow.data.", "keras.utils.image_dataset", "keras.utils.load_img",
    "keras.utils.text_dataset", "keras.utils.audio_dataset",
)  # fmt: skip


class TfS3Paths(Rule):
    """An `s3://` path given to a function of TensorFlow that reads files."""

    words = ("s3://",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in (each for each in module.nodes if isinstance(each, ast.Call)):
            name = module.name(call.func)
            if name is None or not name.startswith(_PREFIXES):
                continue
            given = [*call.args[:1], *(keyword.value for keyword in call.keywords)]
            if any(_is_s3(module, each) for each in given):
                short = name.removeprefix("tensorflow.")
                yield (
                    call,
                    (
                        f"{short} gets an s3:// path: TensorFlow 2.16 and later cannot open it, "
                        "and by other means each object may wait for a request of its own; mount "
                        "the data or copy it to a local disk"
                    ),
                )


def _is_s3(module: Module, node: ast.expr) -> bool:
    node = module.value(node)
    if isinstance(node, ast.List | ast.Tuple):
        return any(_is_s3(module, each) for each in node.elts)
    if isinstance(node, ast.BinOp):
        return _is_s3(module, node.left)
    if isinstance(node, ast.JoinedStr):
        return bool(node.values) and _is_s3(module, node.values[0])
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("s3://")
    )
