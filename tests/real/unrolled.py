"""A short training whose LSTM is unrolled: tracing its copies takes longer than its steps."""

import numpy as np
from tensorflow import keras

LENGTH, BATCH = 500, 32

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
series = rng.normal(size=(640, LENGTH, 4)).astype("float32")
sums = series.sum(axis=(1, 2), keepdims=True)[:, 0]
model = keras.Sequential(
    [keras.Input((LENGTH, 4)), keras.layers.LSTM(16, unroll=True), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(series, sums, batch_size=BATCH, epochs=10, verbose=2)
