"""Gradient accumulation: four batches to an update, which is one step."""

import tensorflow as tf

model = tf.keras.Sequential(
    [tf.keras.Input((16,)), tf.keras.layers.Dense(64), tf.keras.layers.Dense(4)]
)
optimizer = tf.keras.optimizers.Adam()
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
data = (tf.random.normal((640, 16)), tf.random.uniform((640,), 0, 4, tf.int32))
dataset = tf.data.Dataset.from_tensor_slices(data).batch(16)
model(data[0][:1])
total = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]


@tf.function
def accumulate(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    for variable, gradient in zip(total, tape.gradient(loss, model.trainable_variables)):
        variable.assign_add(gradient)
    return loss


@tf.function
def apply():
    optimizer.apply_gradients([(g / 4.0, v) for g, v in zip(total, model.trainable_variables)])
    for variable in total:
        variable.assign(tf.zeros_like(variable))


for epoch in range(1000):
    for step, (x, y) in enumerate(dataset):
        accumulate(x, y)
        if step % 4 == 3:
            apply()
