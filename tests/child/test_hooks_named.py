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
    """The functions and methods of a file that watch something; it may need its framework."""
    tree = ast.parse((CHILD / file).read_text(encoding="utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return {name for name in names if name.startswith("watch_") or name == "imported"}


@pytest.mark.parametrize(
    ("named", "file"),
    [
        (TENSORFLOW, "tensorflow/hooks.py"),
        (TORCH, "torch/hooks.py"),
        (KERAS, "keras/hooks.py"),
        (LEGACY, "keras/legacy.py"),
    ],
    ids=["tensorflow", "torch", "keras", "tf_keras"],
)
def test_each_function_is_named_and_each_name_is_a_function(named, file):
    assert set(named.values()) == functions(file)
