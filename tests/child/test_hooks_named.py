"""The modules that are hooked are named apart from what hooks them: both must agree."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import trainperf.child
from trainperf.child.keras.modules import HOOKS as KERAS
from trainperf.child.keras.modules import LEGACY
from trainperf.child.tensorflow.modules import HOOKS as TENSORFLOW
from trainperf.child.torch.modules import HOOKS as TORCH

CHILD = Path(trainperf.child.__file__).parent


def functions(file: str) -> set[str]:
    """The functions and methods of a file; it may need its framework."""
    tree = ast.parse((CHILD / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def watching(file: str) -> set[str]:
    """Those that watch something."""
    return {name for name in functions(file) if name.startswith("watch_") or name == "imported"}


def test_each_method_for_keras_2_is_named_and_each_name_is_a_method():
    assert set(LEGACY.values()) == watching("keras/legacy.py")


@pytest.mark.parametrize(
    ("named", "package"),
    [(KERAS, "keras"), (TENSORFLOW, "tensorflow"), (TORCH, "torch")],
    ids=["keras", "tensorflow", "torch"],
)
def test_each_file_and_function_is_there_and_no_hook_is_left_out(named, package):
    own = set()
    for where in named.values():
        part, _, function = where.rpartition(".")
        assert function in functions(f"{package}/{part.replace('.', '/')}.py"), where
        own |= {function} if part == "hooks" else set()
    assert own == watching(f"{package}/hooks.py")
