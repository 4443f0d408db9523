"""Pictures that are distorted ahead of a shuffle: each epoch waits until its buffer is full."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

PICTURES, SIZE, BATCH = 1_000, 160, 32

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
pictures = rng.integers(0, 256, (PICTURES, SIZE, SIZE, 3), dtype="uint8")
labels = rng.integers(0, 5, PICTURES)


def distorted(picture, label):
    """Return a small picture of random part, colour and side."""
    picture = tf.image.random_crop(picture, (128, 128, 3))
    picture = tf.image.random_flip_left_right(tf.cast(picture, tf.float32) / 255)
    picture = tf.image.random_saturation(tf.image.random_hue(picture, 0.1), 0.5, 1.5)
    return tf.image.resize(picture, (32, 32)), label


dataset = tf.data.Dataset.from_tensor_slices((pictures, labels))
dataset = dataset.map(distorted, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.shuffle(PICTURES).batch(BATCH).prefetch(tf.data.AUTOTUNE)
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Flatten(),
        keras.layers.Dense(64),
        keras.layers.Dense(5),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset, epochs=10, verbose=2)
