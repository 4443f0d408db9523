"""Train a network for digits, keeping a checkpoint that is never out of date.

The digits are made here: ten fixed patterns under noise. Losses go to a CSV file.
"""

import csv
import os
import tempfile

import numpy as np
from tensorflow import keras

IMAGES = 6_000
BATCH = 64


def make_digits():
    """Return noisy pictures of ten patterns, and which pattern each one is."""
    rng = np.random.default_rng(0)
    patterns = rng.random((10, 28, 28, 1)) > 0.6
    labels = rng.integers(0, 10, IMAGES)
    images = patterns[labels] + rng.normal(0, 0.8, (IMAGES, 28, 28, 1))
    return images.astype(np.float32), labels


class SafeTraining(keras.callbacks.Callback):
    """Save the weights and write the loss down after every batch."""

    def __init__(self, folder):
        super().__init__()
        self.weights = os.path.join(folder, "last.weights.h5")
        self.log = os.path.join(folder, "losses.csv")
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        """Write both files anew."""
        self.seen += 1
        self.model.save_weights(self.weights, overwrite=True)
        with open(self.log, "a", newline="") as file:
            csv.writer(file).writerow([self.seen, logs["loss"]])


def build_model():
    """Return a small convolutional network."""
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    """Train with the callback."""
    images, labels = make_digits()
    with tempfile.TemporaryDirectory() as folder:
        build_model().fit(
            images, labels, batch_size=BATCH, epochs=4, callbacks=[SafeTraining(folder)]
        )


if __name__ == "__main__":
    main()
