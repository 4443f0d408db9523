"""A custom loop whose step is a tf.function, over a tf.data pipeline."""

import tensorflow as tf

model = tf.keras.Sequential(
    [tf.keras.Input((32,)), tf.keras.layers.Dense(64), tf.keras.layers.Dense(10)]
)
optimizer = tf.keras.optimizers.Adam()
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
x = tf.random.normal((640, 32))
y = tf.random.uniform((640,), 0, 10, tf.int32)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_fn(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(100):
    for images, labels in dataset:
        loss = train_step(images, labels)
    print(epoch, float(loss))
