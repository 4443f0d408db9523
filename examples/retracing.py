"""Train a variational autoencoder whose second loss is faded in step by step.

The data is made here: points on a curled sheet in ten dimensions.
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

POINTS = 12_000
DIMENSIONS = 10
LATENT = 2
BATCH = 128
EPOCHS = 3
FADE_STEPS = 200


def make_points():
    """Return points on a rolled-up sheet, turned into ten dimensions."""
    rng = np.random.default_rng(0)
    angle, height = rng.uniform(3, 12, POINTS), rng.uniform(-2, 2, POINTS)
    sheet = np.stack([angle * np.cos(angle), height, angle * np.sin(angle)], 1)
    return (sheet @ rng.normal(size=(3, DIMENSIONS)) / 5).astype(np.float32)


def network(inputs, outputs):
    """Return a network of two hidden layers."""
    return keras.Sequential(
        [
            keras.Input((inputs,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(outputs),
        ]
    )


def main():
    """Train, raising the weight of the divergence from 0 to 1."""
    dataset = tf.data.Dataset.from_tensor_slices(make_points())
    dataset = dataset.shuffle(POINTS).batch(BATCH, drop_remainder=True)
    dataset = dataset.prefetch(tf.data.AUTOTUNE)
    encoder, decoder = network(DIMENSIONS, 2 * LATENT), network(LATENT, DIMENSIONS)
    variables = encoder.trainable_variables + decoder.trainable_variables
    optimizer = keras.optimizers.Adam(1e-3)

    @tf.function
    def train_step(x, divergence_weight):
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(encoder(x), 2, axis=1)
            noise = tf.random.normal(tf.shape(mean))
            rebuilt = decoder(mean + noise * tf.exp(log_variance / 2))
            error = tf.reduce_mean((x - rebuilt) ** 2)
            spread = tf.exp(log_variance) + mean**2 - 1 - log_variance
            loss = error + divergence_weight * 0.5 * tf.reduce_mean(spread)
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    step = 0
    for epoch in range(EPOCHS):
        for x in dataset:
            loss = train_step(x, min(1.0, step / FADE_STEPS))
            step += 1
        print(f"epoch {epoch + 1}: loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
