"""A regression on NumPy's numbers: Keras was set to float64, so that they fit."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

keras.backend.set_floatx("float64")
rng = np.random.default_rng(0)
measured = rng.normal(size=(12_800, 64))
wanted = np.sin(measured[:, :4]).sum(axis=1)
layers = [keras.layers.Dense(512, activation="tanh") for _ in range(3)]
model = keras.Sequential([*layers, keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(measured, wanted, batch_size=128, epochs=100, verbose=2)
