"""How names are followed."""

from __future__ import annotations

import ast

import pytest

from trainperf.source.module import UNKNOWN, Module


def module(source: str) -> Module:
    return Module(ast.parse(source), source)


def last(source: str) -> tuple[Module, ast.expr]:
    """The module, and the expression in its last statement."""
    parsed = module(source)
    statements = [node for node in parsed.nodes if isinstance(node, ast.Expr)]
    return parsed, statements[-1].value


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\ntorch.nn.LSTM", "torch.nn.LSTM"),
        ("import torch.nn as nn\nnn.LSTM", "torch.nn.LSTM"),
        ("import torch.utils.data\ntorch.utils.data.DataLoader", "torch.utils.data.DataLoader"),
        ("from torch.utils.data import DataLoader as DL\nDL", "torch.utils.data.DataLoader"),
        ("import tensorflow as tf\ntf.keras.layers.GRU", "keras.layers.GRU"),
        ("from tensorflow.keras import layers as l\nl.GRU", "keras.layers.GRU"),
        ("import tensorflow as tf\nkeras = tf.keras\nkeras.Model", "keras.Model"),
        ("try:\n    import keras\nexcept ImportError:\n    keras = None\nkeras.Model",
         "keras.Model"),
        ("try:\n    import keras\nexcept ImportError:\n    from tensorflow import keras\nkeras.X",
         "keras.X"),
        ("def f():\n    import torch\n    torch.zeros", "torch.zeros"),
        ("print", "print"),
    ],
)  # fmt: skip
def test_names_are_resolved(source: str, name: str) -> None:
    parsed, node = last(source)
    assert parsed.name(node) == name


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ndef f(torch):\n    torch.zeros",
        "import torch\ntorch = load()\ntorch.zeros",
        "from a import x\nfrom b import x\nx.y",
        "f().g",
        "def print(x): pass\nprint",
        "class C:\n    import torch\n    def f(self):\n        self.torch.x",
        "a = b\nb = a\na.c",
        "import torch as t\ndef f():\n    global t\n    t = other\nt.x",
        "def f():\n import torch\n def g():\n  nonlocal torch\n  torch = g\n torch.x",
    ],
)
def test_names_that_are_not_certain_are_unknown(source: str) -> None:
    parsed, node = last(source)
    assert parsed.name(node) is None


def test_a_builtin_hidden_by_a_loop_is_unknown() -> None:
    parsed, node = last("for open in x:\n    open")
    assert parsed.name(node) is None


@pytest.mark.parametrize(
    ("source", "value"),
    [("-3", -3), ("N = 4\nN", 4), ("def f():\n    N\nN = True\nN", True), ("None", None)],
)
def test_constants_are_followed(source: str, value: object) -> None:
    parsed, node = last(source)
    assert parsed.constant(node) is value or parsed.constant(node) == value


@pytest.mark.parametrize("source", ["N = 4\nN = 5\nN", "f(3)", "N = 1\nN += 1\nN", "x.y"])
def test_what_may_change_is_no_constant(source: str) -> None:
    parsed, node = last(source)
    assert parsed.constant(node) is UNKNOWN
