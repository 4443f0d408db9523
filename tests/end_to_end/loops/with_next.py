"""A loop over `iter(dataset)` with `next`, endless by repeat, with map and prefetch."""

import tensorflow as tf


def double(x, y):
    return tf.math.sin(x) * 2, y


model = tf.keras.Sequential(
    [tf.keras.Input((16,)), tf.keras.layers.Dense(64), tf.keras.layers.Dense(4)]
)
optimizer = tf.keras.optimizers.Adam()
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
data = (tf.random.normal((640, 16)), tf.random.uniform((640,), 0, 4, tf.int32))
# fmt: off
dataset = (
    tf.data.Dataset.from_tensor_slices(data)
    .map(double)
    .repeat()
    .batch(16)
    .prefetch(2)
)
# fmt: on
iterator = iter(dataset)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    optimizer.apply_gradients(
        zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    )
    return loss


for step in range(100000):
    x, y = next(iterator)
    train_step(x, y)
