"""Keras 2 (tf_keras): a custom loop whose step is a tf.function."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf

model = tf.keras.Sequential(
    [tf.keras.layers.Dense(64, input_shape=(16,)), tf.keras.layers.Dense(4)]
)
optimizer = tf.keras.optimizers.Adam()
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
data = (tf.random.normal((640, 16)), tf.random.uniform((640,), 0, 4, tf.int32))
dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


for epoch in range(1000):
    for x, y in dataset:
        train_step(x, y)
