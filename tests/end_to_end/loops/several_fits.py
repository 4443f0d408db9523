"""Several fit calls with evaluation between, after `adapt`; a user callback."""

import keras
import numpy as np

rng = np.random.default_rng(0)
x, y = rng.random((1600, 16), dtype="float32"), rng.integers(0, 4, 1600)
normalise = keras.layers.Normalization()
normalise.adapt(x)


class Log(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        sum(range(20000))


model = keras.Sequential(
    [keras.Input((16,)), normalise, keras.layers.Dense(64), keras.layers.Dense(4)]
)
model.compile(
    "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
)
for round_ in range(200):
    model.fit(
        x,
        y,
        batch_size=32,
        epochs=1,
        verbose=0,
        callbacks=[Log()],
        validation_data=(x[:320], y[:320]),
    )
    print(round_, model.evaluate(x, y, verbose=0))
