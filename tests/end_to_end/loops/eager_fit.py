"""fit with run_eagerly, fed by tensors."""

import keras
import tensorflow as tf

x, y = tf.random.normal((640, 16)), tf.random.uniform((640,), 0, 4, tf.int32)
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64), keras.layers.Dense(4)])
model.compile(
    "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True
)
model.fit(x, y, batch_size=32, epochs=100, verbose=0)
