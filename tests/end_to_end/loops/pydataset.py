"""fit fed by a PyDataset whose items are slow to make."""

import math
import time

import keras
import numpy as np


class Slow(keras.utils.PyDataset):
    def __init__(self, count, size, **kwargs):
        super().__init__(**kwargs)
        self.count, self.size = count, size

    def __len__(self):
        return math.ceil(self.count / self.size)

    def __getitem__(self, index):
        time.sleep(0.03)
        rng = np.random.default_rng(index)
        return rng.random((self.size, 32), dtype="float32"), rng.integers(0, 10, self.size)


data = Slow(640, 32)
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=50, verbose=2)
