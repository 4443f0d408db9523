"""A custom loop that leaves its epochs early, with metrics and evaluation between."""

import tensorflow as tf

model = tf.keras.Sequential(
    [tf.keras.Input((16,)), tf.keras.layers.Dense(64), tf.keras.layers.Dense(4)]
)
optimizer = tf.keras.optimizers.SGD(0.01)
mean = tf.keras.metrics.Mean()
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
data = (tf.random.normal((3200, 16)), tf.random.uniform((3200,), 0, 4, tf.int32))
training = tf.data.Dataset.from_tensor_slices(data).shuffle(100).batch(32)
validation = tf.data.Dataset.from_tensor_slices(data).batch(320)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    optimizer.apply_gradients(
        zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    )
    mean.update_state(loss)


@tf.function
def evaluate(x, y):
    return loss_fn(y, model(x, training=False))


for epoch in range(1000):
    for step, (x, y) in enumerate(training):
        train_step(x, y)
        if step == 40:
            break
    for x, y in validation:
        evaluate(x, y)
    mean.reset_state()
