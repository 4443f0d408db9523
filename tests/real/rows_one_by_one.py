"""Fit a small network on rows of arrays that a generator hands out one by one."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

rng = np.random.default_rng(0)
signals = rng.normal(size=(20_000, 64)).astype(np.float32)
kinds = (signals[:, :8].sum(1) > 0).astype(np.int32)


def rows():
    for row in range(len(signals)):
        yield signals[row], kinds[row]


dataset = tf.data.Dataset.from_generator(
    rows,
    output_signature=(tf.TensorSpec((64,), tf.float32), tf.TensorSpec((), tf.int32)),
)
dataset = dataset.shuffle(1000).batch(64).prefetch(tf.data.AUTOTUNE)
model = keras.Sequential([keras.layers.Dense(64, "relu"), keras.layers.Dense(2)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset, epochs=8, verbose=2)
