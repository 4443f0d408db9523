"""A dataset without elements."""

import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(4)])
model.compile("adam", "mse")
dataset = tf.data.Dataset.from_tensor_slices((tf.zeros((0, 16)), tf.zeros((0, 4)))).batch(32)
for x, y in dataset:
    print("never")
model.fit(dataset, epochs=2, verbose=0)
