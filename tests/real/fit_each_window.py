"""A forecast that is brought up to date by a `fit` on each window as it comes."""

import keras
import numpy as np

WINDOW, WIDTH = 32, 12
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
errors = []
for window in range(2_000):
    x = rng.normal(size=(WINDOW, WIDTH)).astype("float32")
    y = np.sin(x.sum(axis=1, keepdims=True))
    errors.append(float(np.abs(model(x) - y).mean()))
    model.fit(x, y, batch_size=WINDOW, epochs=1, verbose=0)
    if window % 100 == 99:
        print(window, np.mean(errors[-100:]))
