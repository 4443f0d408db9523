"""Predict prices from a table with a small network and `fit`.

The table is made here: a dozen columns and a price with some noise.
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

ROWS = 60_000
COLUMNS = 12
BATCH = 32


def make_table():
    """Return the columns and the price."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    price = x @ rng.normal(size=COLUMNS) + np.abs(x[:, 0]) + 0.1 * rng.normal(size=ROWS)
    return x, price.astype(np.float32)


def main():
    """Train for a few epochs."""
    dataset = tf.data.Dataset.from_tensor_slices(make_table()).cache()
    dataset = dataset.shuffle(10_000).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    model = keras.Sequential(
        [
            keras.Input((COLUMNS,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    model.fit(dataset, epochs=6)


if __name__ == "__main__":
    main()
