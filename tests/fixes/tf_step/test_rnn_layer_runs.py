"""The layer that is put in place of `RNN(cell)` computes what the cell did."""

from __future__ import annotations

from typing import Any

import pytest

from rewriting import executed, result, script_of
from trainperf.fixes import by_id

np = pytest.importorskip("numpy")
keras = pytest.importorskip("keras")

X = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")


def output(source: str) -> Any:
    keras.utils.set_random_seed(3)
    names = executed(source, {"x": X})
    return np.asarray(names["y"])


@pytest.mark.parametrize(
    "layer",
    [
        "layers.RNN(layers.LSTMCell(4, unit_forget_bias=False), return_sequences=True)",
        "layers.RNN(layers.GRUCell(4, 'relu', reset_after=False), go_backwards=True)",
    ],
)
def test_the_layer_gives_what_the_cell_gave(layer: str) -> None:
    text = f"from keras import layers\ny = ▸{layer}◂(x)\n"
    script, sites = script_of(text)
    fix = by_id()["rnn_cell_wrapped"]
    found = fix.finding(title="", text="", bound=None, bound_basis="", where=sites)
    fix.rewrite(script, found)
    before = output(text.replace("▸", "").replace("◂", ""))
    np.testing.assert_allclose(output(result(script) or ""), before, rtol=1e-5, atol=1e-6)
