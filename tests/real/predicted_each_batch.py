"""A callback that predicts after every batch, of which only an epoch's last is shown."""

import keras
import numpy as np


class Sample(keras.callbacks.Callback):
    """Show at the end of an epoch what the model makes of some rows."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def on_train_batch_end(self, batch, logs=None):
        self.made = self.model.predict(self.rows, verbose=0)

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch + 1}: {self.made[:3, 0]}")


keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
x = rng.normal(size=(4_000, 32)).astype("float32")
y = np.sin(x.sum(axis=1, keepdims=True))
model = keras.Sequential(
    [keras.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(x, y, batch_size=32, epochs=20, verbose=2, callbacks=[Sample(x[:200])])
