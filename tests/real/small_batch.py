"""`fit` with a small batch from an option, as job scripts have it."""

import argparse

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()

rng = np.random.default_rng(0)
x = rng.normal(size=(16_000, 20, 20, 1)).astype("float32")
y = rng.integers(0, 10, 16_000)

keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.Input((20, 20, 1)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10),
    ]
)
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=args.batch_size, epochs=args.epochs, verbose=2)
