import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

x = np.random.default_rng(0).random((1_280, 16), dtype=np.float32)
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x.sum(1), batch_size=16, epochs=100, verbose=0)
