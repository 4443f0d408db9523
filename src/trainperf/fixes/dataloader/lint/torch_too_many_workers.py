"""Worker counts taken from the cores of the host."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.loops import LOADER
from trainperf.source.module import Module
from trainperf.source.rule import Rule

_COUNTS = {"os.cpu_count", "multiprocessing.cpu_count", "torch.multiprocessing.cpu_count",
           "psutil.cpu_count"}  # fmt: skip


class TorchTooManyWorkers(Rule):
    """A `DataLoader` with `num_workers=os.cpu_count()`."""

    words = ("cpu_count",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(LOADER):
            workers = argument(call, "num_workers", 5)
            count = module.value(workers) if workers is not None else None
            if isinstance(count, ast.BoolOp):
                count = module.value(count.values[0])
            if isinstance(count, ast.Call) and module.name(count.func) in _COUNTS:
                yield (
                    call,
                    (
                        f"num_workers is {ast.unparse(count)}, which counts the cores of the host, "
                        "not those of the container or of this rank: too many workers may take the "
                        "cores from each other and from the training"
                    ),
                )
