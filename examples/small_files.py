"""Tell two kinds of tone apart, read from a folder of short recordings.

Each recording is a file of its own: half a second at 16 kHz, 16 bits a sample, without a
header. The folder holds one sub-folder per class; it is made once, and named on the command
line.
"""

import os
import sys
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

CLASSES = ["rising", "steady"]
RATE = 16_000
LENGTH = RATE // 2
BATCH = 64
EPOCHS = 10


def make_recordings(folder, per_class=1000):
    """Write the recordings, one sub-folder per class."""
    rng = np.random.default_rng(0)
    time = np.arange(LENGTH) / RATE
    for name in CLASSES:
        os.makedirs(os.path.join(folder, name))
        for number in range(per_class):
            rise = rng.uniform(200, 600) if name == "rising" else 0.0
            wave = np.sin(2 * np.pi * (rng.uniform(200, 800) * time + rise * time**2))
            wave = 0.5 * wave + rng.normal(0, 0.1, LENGTH)
            samples = (wave * 20_000).astype("<i2")
            with open(os.path.join(folder, name, f"{number:05d}.raw"), "wb") as file:
                file.write(samples.tobytes())


def load(path):
    """Read one recording and its class."""
    label = tf.strings.split(path, os.sep)[-2] == CLASSES[1]
    samples = tf.io.decode_raw(tf.io.read_file(path), tf.int16)
    wave = tf.cast(tf.ensure_shape(samples, (LENGTH,)), tf.float32) / 32768.0
    return wave[:, tf.newaxis], tf.cast(label, tf.float32)


def build_model():
    """Return a small network of one-dimensional convolutions."""
    model = keras.Sequential(
        [
            keras.Input((LENGTH, 1)),
            keras.layers.Conv1D(8, 64, strides=16, activation="relu"),
            keras.layers.Conv1D(16, 16, strides=4, activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    """Make the data unless it is there, then train on it."""
    default = os.path.join(tempfile.gettempdir(), "recordings")
    folder = sys.argv[1] if len(sys.argv) > 1 else default
    if not os.path.isdir(folder):
        make_recordings(folder + ".part")
        os.rename(folder + ".part", folder)
    dataset = (
        tf.data.Dataset.list_files(os.path.join(folder, "*", "*.raw"), seed=0)
        .map(load, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(BATCH)
        .prefetch(tf.data.AUTOTUNE)
    )
    build_model().fit(dataset, epochs=EPOCHS, verbose=2)


if __name__ == "__main__":
    main()
