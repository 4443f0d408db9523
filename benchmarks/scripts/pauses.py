"""A Keras `fit` with steps of about 100 ms: eight planted pauses, and a small model.

A candidate of the benchmark is this text with one of `PAUSES_MS` changed.
"""

import time

import numpy as np
from tensorflow import keras

PAUSES_MS = [30, 20, 14, 8, 4, 0, 0, 0]
REST_MS = 20


class Pauses(keras.callbacks.Callback):
    """Waits after every batch."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep((sum(PAUSES_MS) + REST_MS) / 1e3)


def main():
    rng = np.random.default_rng(0)
    x, y = rng.random((3200, 64), dtype="float32"), rng.integers(0, 10, 3200)
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=32, epochs=100, verbose=0, callbacks=[Pauses()])


if __name__ == "__main__":
    main()
