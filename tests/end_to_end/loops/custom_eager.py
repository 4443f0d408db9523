"""A custom loop that was never compiled."""

import tensorflow as tf

model = tf.keras.Sequential(
    [tf.keras.Input((32,))]
    + [tf.keras.layers.Dense(64, activation="relu") for _ in range(6)]
    + [tf.keras.layers.Dense(10)]
)
optimizer = tf.keras.optimizers.Adam(1e-4)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
x = tf.random.normal((640, 32))
y = tf.random.uniform((640,), 0, 10, tf.int32)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)


def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_fn(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(100):
    for images, labels in dataset:
        train_step(images, labels)
