"""Gradients that DDP exchanges in every micro-step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.loops import DDP, backward_loops
from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule


class TorchDdpNoSync(Rule):
    """A loop that adds up gradients of several batches under DDP without `no_sync`."""

    words = ("DistributedDataParallel",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if not any(module.calls(DDP)):
            return
        if any(word in module.source for word in ("no_sync", "require_backward_grad_sync")):
            return
        for loop in backward_loops(module):
            for node in inside(loop):
                call = node if isinstance(node, ast.Call) else None
                if call is None or not isinstance(call.func, ast.Attribute):
                    continue
                if call.func.attr == "backward" and _updates_now_and_then(module, loop, call):
                    yield (
                        call,
                        (
                            "backward in every micro-step and an update only in some of them, "
                            "without no_sync(): DDP may exchange all gradients after each, "
                            "where once per update would do"
                        ),
                    )
                    break


def _updates_now_and_then(module: Module, loop: ast.AST, backward: ast.Call) -> bool:
    if module.conditional(backward, loop):
        return False
    for node in inside(loop):
        if not isinstance(node, ast.If) or not _is_modulo(node.test):
            continue
        body = ast.Module(body=[*node.body], type_ignores=[])
        if _steps(body):
            return True
        if any(isinstance(each, ast.Continue) for each in node.body) and _steps(loop):
            return node.lineno > backward.lineno
    return False


def _is_modulo(test: ast.expr) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(test))


def _steps(body: ast.AST) -> bool:
    for node in inside(body):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value).lower()
            schedules = any(word in owner for word in ("sched", "prof", "lr", "ema", "bar"))
            if node.func.attr == "step" and not schedules:
                return True
    return False
