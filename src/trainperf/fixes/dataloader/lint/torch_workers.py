"""Loaders that read files in the training process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument, starred
from trainperf.source.bodies import function_of, looping, reading
from trainperf.source.loops import LOADER, trains
from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule
from trainperf.source.scopes import FUNCTIONS

_FOLDERS = {
    f"torchvision.datasets.{name}"
    for name in ("ImageFolder", "DatasetFolder", "ImageNet", "CocoDetection", "Flowers102",
                 "Food101", "OxfordIIITPet", "Places365", "VOCDetection", "CelebA")
}  # fmt: skip


class TorchWorkers(Rule):
    """A `DataLoader` with `num_workers=0` whose dataset or collating reads files, or loops."""

    words = ("DataLoader",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if not any(module.calls(LOADER)) or not trains(module):
            return
        for call in module.calls(LOADER):
            workers = argument(call, "num_workers", 5)
            if starred(call) or (workers is not None and module.constant(workers) != 0):
                continue
            read = _reads(module, argument(call, "dataset", 0)) or _collates(module, call)
            if read is not None:
                seen = "without num_workers" if workers is None else "with num_workers=0"
                yield (
                    call,
                    (
                        f"a DataLoader {seen}, whose {read}: the training process makes each "
                        "batch itself, on one core, and the model may wait for it"
                    ),
                )


def _reads(module: Module, dataset: ast.expr | None) -> str | None:
    made = module.value(dataset) if dataset is not None else None
    if not isinstance(made, ast.Call):
        return None
    name = module.name(made.func)
    if name in _FOLDERS:
        return f"dataset decodes images ({(name or '').rpartition('.')[2]})"
    home, owner = module.defined(made.func) or (module, None)
    for method in owner.body if isinstance(owner, ast.ClassDef) else ():
        if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
            slow = reading(home, method) or looping(home, method)
            return f"dataset calls {slow} for each sample" if slow is not None else None
    return None


def _collates(module: Module, call: ast.Call) -> str | None:
    """Say of a `collate_fn` that it loops over more than the samples."""
    given = argument(call, "collate_fn", 6)
    function: ast.AST | None = function_of(module, given)
    named = module.defined(given) if function is None and given is not None else None
    if named is not None and isinstance(named[1], FUNCTIONS):
        function = named[1]
    made = module.value(given) if given is not None else None
    found = module.defined(made.func) if isinstance(made, ast.Call) else None
    owner = None if found is None else found[1]
    if isinstance(owner, ast.ClassDef):
        function = next((each for each in owner.body if _named(each, "__call__")), None)
    for loop in inside(function) if function is not None else ():
        if isinstance(loop, ast.For) and any(isinstance(each, _INNER) for each in inside(loop)):
            return "collate_fn loops over what is in each sample"
    return None


def _named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


_INNER = (ast.For, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
