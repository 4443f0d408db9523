"""An autoencoder whose loss is traced in the step, and computed eagerly after each epoch."""

import numpy as np
import tensorflow as tf


def dense(width, out):
    hidden = [tf.keras.layers.Dense(64, "relu") for _ in range(6)]
    return tf.keras.Sequential([tf.keras.Input((width,)), *hidden, tf.keras.layers.Dense(out)])


class AutoEncoder:
    def __init__(self):
        self.encoder, self.decoder = dense(64, 4), dense(2, 64)

    def encode(self, x):
        return tf.split(
            self.encoder(x),
            num_or_size_splits=2,
            axis=1,
        )

    def loss(self, x):
        mean, log_variance = self.encode(x)
        z = mean + tf.random.normal(tf.shape(mean)) * tf.exp(0.5 * log_variance)
        return tf.reduce_mean(tf.square(self.decoder(z) - x))


tf.keras.utils.set_random_seed(1)
model = AutoEncoder()
weights = model.encoder.trainable_variables + model.decoder.trainable_variables
optimizer = tf.keras.optimizers.Adam(1e-3)


@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = model.loss(x)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


data = np.random.default_rng(1).random((9_600, 64), "float32")
train = tf.data.Dataset.from_tensor_slices(data).batch(32)
test = train.take(100)
for epoch in range(15):
    for x in train:
        train_step(x)
    losses = [float(model.loss(x)) for x in test]
    print(f"epoch {epoch + 1}: {np.mean(losses):.4f}")
