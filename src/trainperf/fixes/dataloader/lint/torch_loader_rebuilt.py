"""Loaders that every epoch builds anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.loops import LOADER, assigned_in, backward_loops
from trainperf.source.module import Module, inside, names_in
from trainperf.source.rule import Rule
from trainperf.source.scopes import LOOPS


class TorchLoaderRebuilt(Rule):
    """A `DataLoader` built within the loop over epochs, from what stays the same."""

    words = ("DataLoader",)
    silent = (
        """
        from torch.utils.data import DataLoader
        l = DataLoader(d, num_workers=2)
        for epoch in range(3):
            for x in l:
                loss.backward()
                opt.step()
        """,
        """
        from torch.utils.data import DataLoader
        for epoch in range(3):
            d.reorder()
            for x in DataLoader(d, num_workers=2):
                loss.backward()
                opt.step()
        """,
        """
        from torch.utils.data import DataLoader
        for fold in folds:
            l = DataLoader(parts[fold], num_workers=2)
            for x in l:
                loss.backward()
                opt.step()
        """,
        """
        import torch
        from torch.utils.data import DataLoader
        for seed in range(3):
            opt = torch.optim.SGD(make())
            l = DataLoader(d, num_workers=2)
            for x in l:
                loss.backward()
                opt.step()
        """,
    )
    fires = (
        """
        from torch.utils.data import DataLoader
        for epoch in range(3):
            l = DataLoader(d, num_workers=2)
            for x in l:
                loss.backward()
                opt.step()
        """,
        """
        from torch.utils.data import DataLoader
        for epoch in range(3):
            for x in DataLoader(d, num_workers=2):
                loss.backward()
                opt.step()
        """,
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        steps = backward_loops(module)
        for call in module.calls(LOADER):
            around = module.loops(call)
            epochs = around[0] if around else None
            if not isinstance(epochs, LOOPS) or module.conditional(call, epochs):
                continue
            if not any(epochs in module.loops(step) for step in steps):
                continue
            changing = assigned_in(module, epochs) | _used(epochs)
            if names_in(call) & changing or _starts_over(module, epochs):
                continue
            yield (
                call,
                (
                    "a DataLoader built within the loop over epochs: its workers start anew each "
                    "time and the model may wait for them; build it once, before the loop"
                ),
            )


def _used(loop: ast.AST) -> set[str]:
    """Return the names whose methods a loop calls as statements, which may change them."""
    return {
        each.value.func.value.id
        for each in inside(loop)
        if isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and isinstance(each.value.func, ast.Attribute)
        and isinstance(each.value.func.value, ast.Name)
    }


def _starts_over(module: Module, loop: ast.AST) -> bool:
    """Whether each turn trains a model of its own: folds, seeds, settings."""
    for node in inside(loop):
        if isinstance(node, ast.Call):
            name = module.name(node.func) or ""
            if name.startswith(("torch.optim.", "torch.nn.")) and name[-1] != ".":
                return not name.startswith(("torch.nn.utils", "torch.nn.functional"))
            own = node.func.id if isinstance(node.func, ast.Name) else ""
            if any(word in own.lower() for word in ("optim", "model", "adam", "sgd")):
                return True
    return False
