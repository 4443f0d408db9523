"""The modules that are hooked are named apart from what hooks them: both must agree."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import trainperf.child
from trainperf.child.start import HOOKS

CHILD = Path(trainperf.child.__file__).parent


def functions(file: str) -> set[str]:
    """The functions and methods of a file; it may need its framework."""
    tree = ast.parse((CHILD / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def watching(file: str) -> set[str]:
    """Those that watch something."""
    return {name for name in functions(file) if name.startswith("watch_") or name == "imported"}


@pytest.mark.parametrize(("package", "named"), HOOKS.items())
def test_each_file_and_function_is_there_and_no_hook_is_left_out(package, named):
    own = {"hooks": set()}
    for where in named.values():
        part, _, function = where.partition(":")[0].rpartition(".")
        assert function in functions(f"{package}/{part.replace('.', '/')}.py"), where
        own.setdefault(part, set()).add(function)
    assert own["hooks"] >= watching(f"{package}/hooks.py")
