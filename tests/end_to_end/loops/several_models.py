"""A short pretraining, then the real training of another model."""

import keras
import numpy as np

x = np.random.default_rng(0).random((6400, 16), dtype="float32")
small = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16)])
small.compile("sgd", "mse")
small.fit(x[:320], x[:320], batch_size=32, epochs=1, verbose=0)
large = keras.Sequential([keras.Input((16,)), keras.layers.Dense(256), keras.layers.Dense(16)])
large.compile("adam", "mse")
large.fit(x, x, batch_size=64, epochs=100, verbose=0)
