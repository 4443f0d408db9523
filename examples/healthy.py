"""Classify textures with a convolutional network, fed by a cached pipeline.

The textures are made here: gratings of different angle and width.
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

IMAGES = 2_048
SIZE = 48
CLASSES = 8
BATCH = 128


def make_textures():
    """Return pictures as bytes, and the class of each."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, IMAGES)
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    angles = labels[:, None, None] * np.pi / CLASSES
    waves = np.sin((rows * np.cos(angles) + columns * np.sin(angles)) / 2)
    noisy = 128 + 60 * waves + rng.normal(0, 30, waves.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)[..., None], labels


def scale(image, label):
    """Return the picture as numbers between 0 and 1."""
    return tf.cast(image, tf.float32) / 255, label


def build_model():
    """Return a convolutional network that keeps the machine busy."""
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(48, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(CLASSES),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def main():
    """Train on the cached, shuffled and prefetched textures."""
    dataset = tf.data.Dataset.from_tensor_slices(make_textures())
    dataset = dataset.map(scale, num_parallel_calls=tf.data.AUTOTUNE).cache()
    dataset = dataset.shuffle(IMAGES).batch(BATCH, drop_remainder=True)
    dataset = dataset.prefetch(tf.data.AUTOTUNE)
    stop = keras.callbacks.EarlyStopping("loss", patience=3)
    build_model().fit(dataset, epochs=20, callbacks=[stop])


if __name__ == "__main__":
    main()
