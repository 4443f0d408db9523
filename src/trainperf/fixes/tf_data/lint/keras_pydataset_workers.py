"""A `PyDataset` that one thread reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument, starred
from trainperf.source.bodies import reading
from trainperf.source.loops import fits
from trainperf.source.module import Module
from trainperf.source.rule import Rule

_GENERATOR = "keras.preprocessing.image.ImageDataGenerator"
_BASES = {
    "keras.utils.PyDataset",
    "keras.utils.Sequence",
    "keras.utils.data_utils.Sequence",
}


class KerasPydatasetWorkers(Rule):
    """A `PyDataset` or image generator without `workers` that reads files, given to `fit`."""

    words = (".fit(", "PyDataset", "Sequence", "flow_from_directory", "flow_from_dataframe")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for fit in fits(module):
            given = argument(fit, "x", 0)
            made = module.value(given) if given is not None else None
            if not isinstance(made, ast.Call) or starred(fit) or starred(made):
                continue
            if flow := _flow(module, made):
                if not _sets_workers(module):
                    yield (
                        made,
                        (
                            f"{flow} decodes images for each batch and has no workers: one thread "
                            "reads, taking turns with the training loop, and the model may wait "
                            "for it"
                        ),
                    )
                continue
            home, owner = module.defined(made.func) or (module, None)
            if not isinstance(owner, ast.ClassDef) or not home.bases(owner) & _BASES:
                continue
            if argument(fit, "workers") is not None or argument(made, "workers") is not None:
                continue
            get = next((each for each in owner.body if _is_get(each)), None)
            read = reading(home, get) if get is not None else None
            if read is not None and not (_sets_workers(module) or _sets_workers(home)):
                yield (
                    made,
                    (
                        f"{owner.name} calls {read} for each batch and has no workers: one thread "
                        "reads, taking turns with the training loop, and the model may wait for it"
                    ),
                )


def _flow(module: Module, made: ast.Call) -> str:
    """The method of an `ImageDataGenerator` that made what `fit` gets; "" for another."""
    if not isinstance(made.func, ast.Attribute) or not made.func.attr.startswith("flow_from_"):
        return ""
    owner = module.value(made.func.value)
    name = module.name(owner.func) if isinstance(owner, ast.Call) else None
    return made.func.attr if name == _GENERATOR else ""


def _is_get(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__getitem__"


def _sets_workers(module: Module) -> bool:
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr == "workers":
            return True
        if isinstance(node, ast.keyword) and node.arg in ("workers", None):
            return True
    return False
