"""ResNet training in a loop that is never compiled, with a small learning rate."""

import residual
import tensorflow as tf

SIZE, BATCH, CLASSES = 64, 16, 100

model = residual.build(SIZE, CLASSES)
optimizer = tf.keras.optimizers.Adam(learning_rate=1e-4)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

images = tf.random.uniform((800, SIZE, SIZE, 3), maxval=255)
labels = tf.random.uniform((800,), maxval=CLASSES, dtype=tf.int32)
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH)


def train_step(batch, wanted):
    """Update the weights once."""
    with tf.GradientTape() as tape:
        loss = loss_of(wanted, model(batch))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


for _ in range(10):
    for batch, wanted in dataset:
        train_step(batch, wanted)
