"""Callbacks that write after each batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule

FEW = 10
"""Batches between two writes below which a callback is said to work in nearly each."""
_HOOKS = {"on_train_batch_end", "on_batch_end", "on_train_batch_begin", "on_batch_begin"}
_WRITES = {"print", "open", "json.dump", "pickle.dump", "matplotlib.pyplot.plot",
           "matplotlib.pyplot.savefig"}  # fmt: skip
_METHODS = {"save", "save_weights", "savefig"}


class KerasCallbackPerBatch(Rule):
    """A callback that saves, logs or prints after every batch or every few."""

    words = ("save_freq", "update_freq", "batch_end", "batch_begin")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("keras.callbacks.ModelCheckpoint"):
            batches = module.constant(argument(call, "save_freq"))
            if _few(batches) and not module.conditional(call):
                yield (
                    call,
                    (
                        f"ModelCheckpoint(save_freq={batches}) writes a checkpoint every "
                        f"{_batches(batches)}, and the model waits for it: this may take longer "
                        "than the training"
                    ),
                )
        for call in module.calls("keras.callbacks.TensorBoard"):
            often = module.constant(argument(call, "update_freq"))
            if (often == "batch" or _few(often)) and not module.conditional(call):
                yield (
                    call,
                    (
                        f"TensorBoard(update_freq={often!r}) writes after "
                        f"{'each batch' if often == 'batch' else 'every ' + _batches(often)}, "
                        "which may hold the training up"
                    ),
                )
        for owner in module.classes:
            if "keras.callbacks.Callback" in module.bases(owner):
                yield from self._own(module, owner)

    def _own(self, module: Module, owner: ast.ClassDef) -> Iterator[tuple[ast.AST, str]]:
        for method in owner.body:
            if not isinstance(method, ast.FunctionDef) or method.name not in _HOOKS:
                continue
            if any(isinstance(each, ast.Return) for each in inside(method)):
                continue
            for node in inside(method):
                name = _writes(module, node) if isinstance(node, ast.Call) else None
                if name is not None and not module.conditional(node):
                    yield (
                        method,
                        (
                            f"{owner.name}.{method.name} calls {name} for every batch, and the "
                            "model waits for it; every 100th batch may do"
                        ),
                    )
                    break


def _few(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= FEW


def _batches(number: int) -> str:
    return "batch" if number == 1 else f"{number} batches"


def _writes(module: Module, call: ast.Call) -> str | None:
    name = module.name(call.func)
    if name in _WRITES:
        return name
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
        return call.func.attr
    return None
