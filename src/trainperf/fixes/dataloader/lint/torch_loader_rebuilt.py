"""Loaders that every epoch builds anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.loops import LOADER, assigned_in, backward_loops, starts_over, used_in
from trainperf.source.module import Module
from trainperf.source.rule import Rule
from trainperf.source.scopes import LOOPS
from trainperf.source.statements import names_in


class TorchLoaderRebuilt(Rule):
    """A `DataLoader` built within the loop over epochs, from what stays the same."""

    words = ("DataLoader",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        steps = backward_loops(module)
        for call in module.calls(LOADER):
            around = module.loops(call)
            epochs = around[0] if around else None
            if not isinstance(epochs, LOOPS) or module.conditional(call, epochs):
                continue
            if not any(epochs in module.loops(step) for step in steps):
                continue
            changing = assigned_in(epochs) | used_in(epochs)
            if names_in(call) & changing or starts_over(module, epochs):
                continue
            yield (
                call,
                (
                    "a DataLoader built within the loop over epochs: its workers start anew each "
                    "time and the model may wait for them; build it once, before the loop"
                ),
            )
