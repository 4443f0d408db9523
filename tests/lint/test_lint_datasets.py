"""Names that certainly stand for a dataset, from the source."""

from __future__ import annotations

import ast

from trainperf.lint.rules.tensorflow import is_dataset
from trainperf.source.module import Module


def last(text: str) -> bool:
    """Whether the last expression of a source is a dataset."""
    tree = ast.parse(f"import tensorflow as tf\n{text}")
    statement = tree.body[-1]
    assert isinstance(statement, ast.Expr)
    return is_dataset(Module(tree, text), statement.value)


def test_a_name_that_is_bound_to_itself_again_and_again_is_looked_at_once() -> None:
    again = "ds = ds.map(f)\n" * 30
    assert last(f"ds = tf.data.Dataset.range(3)\n{again}ds")
    assert not last(f"ds = tf.data.Dataset.range(3)\nds = other()\n{again}ds")
    assert not last(f"{again}ds")
