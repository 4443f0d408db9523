"""fit fed by a plain Python generator."""

import time

import keras
import numpy as np

rng = np.random.default_rng(0)


def batches():
    while True:
        time.sleep(0.02)
        yield rng.random((32, 32), dtype="float32"), rng.integers(0, 10, 32)


model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(batches(), steps_per_epoch=50, epochs=50, verbose=2)
