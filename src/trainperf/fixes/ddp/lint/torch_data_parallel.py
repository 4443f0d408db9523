"""`nn.DataParallel`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.module import Module
from trainperf.source.rule import Rule


class TorchDataParallel(Rule):
    """A model wrapped in `nn.DataParallel`."""

    words = ("DataParallel",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("torch.nn.DataParallel"):
            devices = argument(call, "device_ids", 1)
            one = isinstance(devices, ast.List) and len(devices.elts) < 2
            if not one:
                yield (
                    call,
                    (
                        "nn.DataParallel runs all GPUs from one Python process and copies the "
                        "model to each of them in every step: the GPUs may wait for each other; "
                        "DistributedDataParallel has a process for each"
                    ),
                )
