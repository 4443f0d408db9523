"""Folds of a small table, each with a model of its own that is built and compiled anew."""

import keras
import numpy as np

FOLDS, ROWS, WIDTH = 24, 1_200, 16
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(ROWS, WIDTH)).astype("float32")
y = np.tanh(x[:, :3].sum(axis=1, keepdims=True))


def build():
    model = keras.Sequential(
        [keras.layers.Dense(48, activation="relu") for _ in range(4)] + [keras.layers.Dense(1)]
    )
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    return model


scores, folds = [], np.array_split(rng.permutation(ROWS), FOLDS)
for fold, held in enumerate(folds):
    rest = np.setdiff1d(np.arange(ROWS), held)
    model = build()
    model.fit(x[rest], y[rest], epochs=2, batch_size=64, verbose=0)
    scores.append(model.evaluate(x[held], y[held], verbose=0)[1])
    print(fold, scores[-1])
