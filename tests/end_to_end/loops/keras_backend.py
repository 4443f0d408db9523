import os
import sys

os.environ["KERAS_BACKEND"] = sys.argv[1]
import keras
import numpy as np

x = np.random.default_rng(0).random((1_280, 16), dtype=np.float32)
y = x.sum(1)


class Pairs(keras.utils.PyDataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        rows = slice(16 * index, 16 * index + 16)
        return x[rows], y[rows]


class Losses(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.loss = logs["loss"]


def given(kind):
    if kind == "PyDataset":
        return Pairs(), None
    if kind == "tf.data":
        import tensorflow as tf

        return tf.data.Dataset.from_tensor_slices((x[:640], y[:640])).batch(16), None
    if kind == "DataLoader":
        import torch

        pairs = torch.utils.data.TensorDataset(torch.tensor(x[:640]), torch.tensor(y[:640]))
        return torch.utils.data.DataLoader(pairs, batch_size=16), None
    return x[:640], y[:640]


model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
train, labels = given(sys.argv[2])
model.fit(
    train,
    labels,
    batch_size=16 if sys.argv[2] == "numpy" else None,
    epochs=200,
    verbose=0,
    validation_data=(x[640:], y[640:]),
    callbacks=[Losses()],
)
