"""Work for each sample that is the same for all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule
from trainperf.source.statements import names_in

_LOADS = {"pandas.read_csv", "pandas.read_parquet", "pandas.read_json", "pandas.read_excel",
          "numpy.loadtxt", "numpy.genfromtxt", "torch.load"}  # fmt: skip


class TorchItemWork(Rule):
    """A `Dataset` whose `__getitem__` loads the same file for every sample."""

    words = ("__getitem__",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for owner in module.classes:
            if "torch.utils.data.Dataset" not in module.bases(owner):
                continue
            for method in owner.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
                    yield from self._loads(module, method)

    def _loads(self, module: Module, method: ast.FunctionDef) -> Iterator[tuple[ast.AST, str]]:
        own = {each.arg for each in method.args.args[1:]}
        own |= {each.id for each in inside(method) if isinstance(each, ast.Name) and _stored(each)}
        for node in inside(method):
            if not isinstance(node, ast.Call) or module.name(node.func) not in _LOADS:
                continue
            same = node.args and not names_in(node.args[0]) & own
            if same and not module.conditional(node) and not module.loops(node):
                yield (
                    node,
                    (
                        f"__getitem__ calls {module.name(node.func)} on the same file for every "
                        "sample, which may take far longer than the sample; load it once"
                    ),
                )


def _stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
