"""Strategies whose scope is never entered."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.loops import fits
from trainperf.source.module import Module
from trainperf.source.rule import Rule

STRATEGIES = (
    "tensorflow.distribute.MirroredStrategy",
    "tensorflow.distribute.MultiWorkerMirroredStrategy",
    "tensorflow.distribute.experimental.MultiWorkerMirroredStrategy",
)


class TfStrategyScope(Rule):
    """A strategy of `tf.distribute` whose `scope()` is never entered, and a `fit`."""

    words = ("MirroredStrategy",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        made = list(module.calls(*STRATEGIES))
        entered = any(module.methods("scope", "run", "experimental_run_v2"))
        if not made or entered or not fits(module) or not any(module.methods("compile")):
            return
        for call in made:
            statement = module.parent(call)
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            target = statement.targets[0]
            if isinstance(target, ast.Name) and not _leaves(module, target.id):
                yield (
                    call,
                    (
                        f"the scope of {target.id} is never entered: a model that is built outside "
                        "it trains on one device, and the others may do nothing"
                    ),
                )


def _leaves(module: Module, name: str) -> bool:
    """Whether the object is used otherwise than to count replicas: others may enter it."""
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            above = module.parent(node)
            if not isinstance(above, ast.Attribute) or above.attr != "num_replicas_in_sync":
                return True
    return False
