"""A Python number among the arguments: the step is traced anew each time."""

import tensorflow as tf

model = tf.keras.Sequential(
    [tf.keras.Input((16,)), tf.keras.layers.Dense(8), tf.keras.layers.Dense(4)]
)
optimizer = tf.keras.optimizers.SGD()
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
data = (tf.random.normal((640, 16)), tf.random.uniform((640,), 0, 4, tf.int32))
dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)


@tf.function
def train_step(x, y, step):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True)) * (0.99**step)
    optimizer.apply_gradients(
        zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    )


step = 0
for epoch in range(1000):
    for x, y in dataset:
        train_step(x, y, step)
        step += 1
