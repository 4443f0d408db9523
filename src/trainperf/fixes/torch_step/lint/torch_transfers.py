"""Tensors that are made on the CPU in every step and then moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.loops import backward_loops
from trainperf.source.module import Module
from trainperf.source.rule import Rule

_MAKERS = {f"torch.{name}" for name in ("zeros", "ones", "arange", "full", "eye", "linspace",
                                        "zeros_like", "ones_like", "randn", "rand")}  # fmt: skip


class TorchTransfers(Rule):
    """`torch.zeros(…).to(device)` and its like in a training loop or a module's `forward`."""

    words = (".cuda(", ".to(")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        steps = set(backward_loops(module))
        for call in module.methods("to", "cuda"):
            assert isinstance(call.func, ast.Attribute)
            made = call.func.value
            name = module.name(made.func) if isinstance(made, ast.Call) else None
            if name not in _MAKERS or not isinstance(made, ast.Call):
                continue
            if argument(made, "device") is not None or not _moves(module, call):
                continue
            if module.conditional(call):
                continue
            if steps & set(module.loops(call)[:1]) or _in_forward(module, call):
                yield (
                    call,
                    (
                        f"{name} is made on the CPU in every step and then moved: Python may wait "
                        "for the copy; `device=` makes it where it is needed"
                    ),
                )


def _moves(module: Module, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    target = argument(call, "device", 0)
    if target is None:
        return False
    text = ast.unparse(target)
    return text.endswith("device") or text.startswith(("'cuda", "device"))


def _in_forward(module: Module, call: ast.Call) -> bool:
    function = module.function(call)
    if not isinstance(function, ast.FunctionDef) or function.name != "forward":
        return False
    owner = module.parent(function)
    return isinstance(owner, ast.ClassDef) and "torch.nn.Module" in module.bases(owner)
