"""The edits of eager calls run, and give the numbers that the calls gave."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("keras")

import keras
import numpy as np

from fixes.case_text import rewrites
from rewriting import unmarked

CHANGED = [
    one for one in rewrites("keras_eager_call").values() if one.after != unmarked(one.before)
]


def run(source: str) -> dict[str, Any]:
    """The names that a source binds, with what it calls."""
    keras.utils.set_random_seed(5)
    two = "p, v" in source
    inputs = keras.layers.Input((4,))
    outputs = [keras.layers.Dense(2)(inputs) for _ in range(2)]
    model = keras.Model(inputs, outputs if two else outputs[0])
    x = np.ones((4,) if "[None]" in source else (1, 4), "float32")
    bound: dict[str, Any] = {"model": model, "target": model, "nets": [model], "x": x}
    bound |= {"gamma": 0.9, "last": np.zeros((1, 2), "float32")}
    exec(source, bound)
    if "Agent" in bound:
        agent = bound["Agent"]()
        agent.model = model
        bound["a"], bound["b"], bound["t"] = agent.act(np.ones(4, "float32"))
    return bound


@pytest.mark.parametrize("example", CHANGED, ids=range(len(CHANGED)))
def test_a_changed_example_gives_the_same(example: Any) -> None:
    before, after = run(unmarked(example.before)), run(example.after)
    for name in ("a", "b", "t", "v"):
        assert type(before.get(name)) is type(after.get(name))
        if name in before:
            np.testing.assert_allclose(before[name], after[name], rtol=1e-6)
