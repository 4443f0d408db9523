"""Environment variables that a file sets for itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module


def variables(module: Module) -> Iterator[tuple[ast.AST, str, str]]:
    """Yield what is set without condition: the place, the variable's name and its value."""
    for node, name, value in _settings(module):
        variable, text = module.constant(name), module.constant(value)
        if isinstance(variable, str) and isinstance(text, str) and not module.conditional(node):
            yield node, variable, text


def _settings(module: Module) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    for node in module.nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and _is_environ(module, target.value):
                    yield node, target.slice, node.value
    for call in module.calls("os.environ.setdefault", "os.putenv"):
        if len(call.args) == 2:
            yield call, call.args[0], call.args[1]
    for call in module.calls("os.environ.update"):
        for each in call.args:
            if isinstance(each, ast.Dict):
                pairs = zip(each.keys, each.values, strict=True)
                yield from ((call, key, value) for key, value in pairs if key is not None)


def _is_environ(module: Module, node: ast.expr) -> bool:
    return module.name(node) == "os.environ"
