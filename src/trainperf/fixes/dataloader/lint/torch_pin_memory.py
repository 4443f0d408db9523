"""Batches that a GPU gets from ordinary memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument, starred
from trainperf.source.loops import LOADER, backward_loops, iterated, targets
from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule
from trainperf.source.statements import names_in


class TorchPinMemory(Rule):
    """A `DataLoader` without `pin_memory` whose batches the loop moves by `.cuda()`."""

    words = ("DataLoader",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        seen = set()
        for loop in backward_loops(module):
            if not self._to_gpu(module, loop):
                continue
            for each in iterated(loop):
                call = module.value(each)
                if not isinstance(call, ast.Call) or module.name(call.func) != LOADER:
                    continue
                pinned = argument(call, "pin_memory", 7)
                wanted = pinned is None or module.constant(pinned) is False
                if wanted and not starred(call) and call not in seen:
                    seen.add(call)
                    yield (
                        call,
                        (
                            "a DataLoader without pin_memory=True, whose batches go to the GPU: "
                            "the driver copies each first, and the training process may wait for it"
                        ),
                    )

    def _to_gpu(self, module: Module, loop: ast.AST) -> bool:
        batch = targets(loop)  # type: ignore[arg-type]
        for node in inside(loop):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if not names_in(node.func.value) & batch:
                continue
            if node.func.attr == "cuda":
                return True
            device = argument(node, "device", 0)
            if node.func.attr == "to" and device is not None and _is_cuda(module, device):
                return True
        return False


def _is_cuda(module: Module, node: ast.expr) -> bool:
    node = module.value(node)
    if isinstance(node, ast.Call) and module.name(node.func) == "torch.device" and node.args:
        node = node.args[0]
    text = module.constant(node)
    return isinstance(text, str) and text.startswith("cuda")
