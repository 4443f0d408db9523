"""Debug modes that are on for good."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of
from trainperf.source.loops import backward_loops
from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule
from trainperf.source.scopes import Loop

_PROFILERS = ("torch.profiler.profile", "torch.autograd.profiler.profile")


class TorchDebugModes(Rule):
    """Anomaly detection, deterministic algorithms or a profiler over a whole training."""

    words = ("detect_anomaly", "profile", "use_deterministic_algorithms")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        loops = backward_loops(module)
        for call in module.calls("torch.autograd.set_detect_anomaly"):
            if module.constant(argument(call, "mode", 0)) is True and not module.conditional(call):
                yield call, f"set_detect_anomaly(True): {_ANOMALY}"
        for call in module.calls("torch.autograd.detect_anomaly"):
            trained = any(
                loop in module.loops(call) or call in _heads(module, loop) for loop in loops
            ) or _calls_a_loop(module, call, loops)
            if trained and not module.conditional(call) and not call.args:
                yield call, f"detect_anomaly() around training steps: {_ANOMALY}"
        for call in module.calls("torch.use_deterministic_algorithms"):
            on = module.constant(argument(call, "mode", 0)) is True
            if on and loops and not module.conditional(call):
                yield (
                    call,
                    (
                        "use_deterministic_algorithms(True): the fastest kernels of a GPU may be "
                        "left out; it can go where runs need not repeat bit for bit"
                    ),
                )
        for call in module.calls(*_PROFILERS):
            whole = argument(call, "schedule") is None and not module.conditional(call)
            if whole and any(call in _heads(module, loop) for loop in loops):
                yield (
                    call,
                    (
                        "a profiler without a schedule around the training loop: it writes an "
                        "event for every operation of each step, which may take long"
                    ),
                )


_ANOMALY = (
    "it walks the Python stack at every operation and looks for NaN in every gradient, which may "
    "take several times as long as the step"
)


def _calls_a_loop(module: Module, head: ast.Call, loops: list[Loop]) -> bool:
    """Whether the `with` statement of `head` calls a function of this file that trains."""
    around = module.parent(module.parent(head) or head)
    if not isinstance(around, ast.With):
        return False
    functions = {module.function(loop) for loop in loops} - {None}
    called = (each for each in inside(around) if isinstance(each, ast.Call))
    return any(function_of(module, each.func) in functions for each in called)


def _heads(module: Module, loop: ast.AST) -> set[ast.AST]:
    """Return the expressions of the `with` statements around a loop."""
    return {
        item.context_expr
        for each in module.around(loop)
        if isinstance(each, ast.With)
        for item in each.items
    }
