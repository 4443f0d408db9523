"""A tf.function that is given the iterator and calls `next` itself."""

import tensorflow as tf

model = tf.keras.Sequential(
    [tf.keras.Input((16,)), tf.keras.layers.Dense(64), tf.keras.layers.Dense(4)]
)
optimizer = tf.keras.optimizers.Adam()
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
data = (tf.random.normal((640, 16)), tf.random.uniform((640,), 0, 4, tf.int32))
dataset = tf.data.Dataset.from_tensor_slices(data).repeat().batch(16)


@tf.function
def train_step(iterator):
    x, y = next(iterator)
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    optimizer.apply_gradients(
        zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    )
    return loss


iterator = iter(dataset)
for step in range(100000):
    train_step(iterator)
