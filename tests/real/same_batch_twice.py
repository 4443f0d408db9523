"""A loop under a strategy whose batches are not shared out: each replica computes all of them."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

BATCH, WIDTH = 16, 2_048

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
x = rng.normal(size=(5_000, WIDTH)).astype("float32")
y = rng.integers(0, 10, 5_000)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(5_000).batch(BATCH).prefetch(2)
with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((WIDTH,)),
            keras.layers.Dense(WIDTH, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    optimizer = keras.optimizers.SGD(0.01)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)


@tf.function
def train_step(x, y):
    """Update the model; return the mean loss of the batch."""

    def update(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loss_of(y, model(x, training=True))) / BATCH
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    losses = strategy.run(update, args=(x, y))
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)


for epoch in range(20):
    for x_batch, y_batch in dataset:
        loss = train_step(x_batch, y_batch)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
