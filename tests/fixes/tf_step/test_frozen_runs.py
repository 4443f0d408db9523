"""A head that trains on features made once learns what the whole model would."""

from __future__ import annotations

from typing import Any

import pytest

from fixes.case_text import edited

np = pytest.importorskip("numpy")
keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")

BASE = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32, "relu")])
BASE.trainable = False

SCRIPT = """\
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x, y = rng.normal(size=(40, 8)).astype("float32"), rng.normal(size=(40, 1)).astype("float32")
held = x[:10], y[:10]
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
small = tf.data.Dataset.from_tensor_slices(held).batch(5)
first = keras.initializers.Constant(0.1)
model = keras.Sequential([keras.Input((8,)), base, keras.layers.Dense(1, kernel_initializer=first)])
after = ▸{fit}◂
"""

COMPILE = """
def build():
    ▸model.compile(optimizer="adam", loss="mse")◂
"""


def trained(source: str) -> Any:
    names: dict[str, Any] = {"base": BASE}
    exec(source, names)
    return names["model"].get_weights()[-2:], names["after"].history


@pytest.mark.parametrize(
    ("fit", "arrays", "ahead"),
    [
        ("model.fit(data, epochs=3, validation_data=small, verbose=0)", False, ""),
        (
            "model.fit(x, y, epochs=3, validation_data=(x[:9], y[:9]), shuffle=False, verbose=0)",
            True,
            "head, frozen, frozen_features = 1, 2, 3\n",
        ),
    ],
)
def test_the_edited_script_learns_the_same_weights_of_the_whole_model(
    fit: str, arrays: bool, ahead: str
) -> None:
    fitted = ahead + SCRIPT.format(fit=fit)
    before = fitted.replace("▸", "").replace("◂", "")
    data = {"layers": 1, "batch_size": 16, "arrays": arrays, "shuffled": False}
    weights, history = trained(edited("keras_frozen_base", fitted + COMPILE, data))
    whole = before.replace("after =", 'model.compile("adam", "mse")\nafter =')
    expected, seen = trained(whole)
    for one, other in zip(weights, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert list(history) == list(seen)
    np.testing.assert_allclose(history["val_loss"], seen["val_loss"], rtol=1e-4)
