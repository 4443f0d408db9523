"""`fit` that validates on as much data as it trains on, on one thread by a variable."""

import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(8_000, 24, 24, 1)).astype("float32")
y = rng.integers(0, 10, len(x))

keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.Input((24, 24, 1)),
        keras.layers.Conv2D(24, 5, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(24, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10),
    ]
)
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x[:2_500], y[:2_500], batch_size=50, epochs=24, validation_data=(x[2_500:], y[2_500:]))
