"""fit fed by a PyDataset with worker processes."""

import time

import keras
import numpy as np


class Slow(keras.utils.PyDataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        time.sleep(0.01)
        return np.zeros((32, 16), "float32"), np.zeros((32, 4), "float32")


if __name__ == "__main__":
    data = Slow(workers=2, use_multiprocessing=True, max_queue_size=4)
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(4)])
    model.compile("adam", "mse")
    model.fit(data, epochs=100, verbose=0)
