"""Two datasets zipped in Python; one step takes from both."""

import tensorflow as tf

model = tf.keras.Sequential(
    [tf.keras.Input((16,)), tf.keras.layers.Dense(64), tf.keras.layers.Dense(4)]
)
optimizer = tf.keras.optimizers.Adam()
images = tf.data.Dataset.from_tensor_slices(tf.random.normal((640, 16))).batch(32)
labels = tf.data.Dataset.from_tensor_slices(tf.random.uniform((640,), 0, 4, tf.int32)).batch(32)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    optimizer.apply_gradients(
        zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    )


for epoch in range(1000):
    for x, y in zip(images, labels):
        train_step(x, y)
