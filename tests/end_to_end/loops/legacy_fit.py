"""Keras 2 (tf_keras): fit over a dataset, with validation."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf

data = (tf.random.normal((640, 32)), tf.random.uniform((640,), 0, 10, tf.int32))
dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)
model = tf.keras.Sequential(
    [tf.keras.layers.Dense(64, input_shape=(32,)), tf.keras.layers.Dense(10)]
)
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset, epochs=100, verbose=2, validation_data=dataset)
