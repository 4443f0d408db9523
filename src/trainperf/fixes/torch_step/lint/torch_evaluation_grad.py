"""Evaluation that records a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.loops import without_grad
from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule
from trainperf.source.scopes import FUNCTIONS, Function

_GRADIENT_WORDS = ("backward", "grad", "inference_mode", "attack", "adversarial", "saliency",
                   "export", "jacobian", "hessian")  # fmt: skip


class TorchEvaluationGrad(Rule):
    """A function that calls `model.eval()` and then the model in a loop, without `no_grad`."""

    words = (".eval()",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if "torch" not in module.source:
            return
        for call in module.methods("eval"):
            function = module.function(call)
            plain = isinstance(module.parent(call), ast.Expr) and not call.args
            if not plain or not isinstance(function, FUNCTIONS) or module.conditional(call):
                continue
            if function.decorator_list or _mentions_gradients(function):
                continue
            assert isinstance(call.func, ast.Attribute)
            place = _forward(module, function, call, ast.dump(call.func.value))
            if place is not None and _called_with_grad(module, function):
                yield (
                    place,
                    (
                        f"{function.name} calls the model after eval() without torch.no_grad(): "
                        "each forward records a graph for a backward that never comes, which may "
                        "take time and memory"
                    ),
                )


def _forward(module: Module, function: Function, call: ast.Call, model: str) -> ast.Call | None:
    for node in inside(function):
        if (
            isinstance(node, ast.Call)
            and node.lineno > call.lineno
            and node.args
            and ast.dump(node.func) == model
            and module.loops(node)
        ):
            return node
    return None


def _mentions_gradients(function: Function) -> bool:
    text = ast.unparse(function).lower().replace("zero_grad", "")
    return any(word in text for word in _GRADIENT_WORDS) or ".train()" in text.split(".eval()")[0]


def _called_with_grad(module: Module, function: Function) -> bool:
    """Whether this file calls the function, and never under `no_grad`."""
    calls = [
        node
        for node in module.nodes
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == function.name)
            or (isinstance(node.func, ast.Attribute) and node.func.attr == function.name)
        )
    ]
    grad_off = "set_grad_enabled(False)" in module.source
    return bool(calls) and not grad_off and not any(without_grad(module, each) for each in calls)
