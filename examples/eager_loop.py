"""Train a deep network for tables in a loop of one's own.

The table is made here: twenty columns, and a target that depends on some of them.
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

ROWS = 20_000
COLUMNS = 20
BATCH = 64
EPOCHS = 4


def make_table():
    """Return the columns and the target."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    y = np.sin(x[:, 0]) * x[:, 1] + x[:, 2] ** 2 + 0.1 * rng.normal(size=ROWS)
    return x, y.astype(np.float32)[:, None]


def build_model():
    """Return a network of residual blocks."""
    inputs = keras.Input((COLUMNS,))
    x = keras.layers.Dense(64)(inputs)
    for _ in range(6):
        shortcut = x
        x = keras.layers.LayerNormalization()(x)
        x = keras.layers.Dense(64, activation="gelu")(x)
        x = keras.layers.Dense(64)(x)
        x = keras.layers.Add()([x, shortcut])
    return keras.Model(inputs, keras.layers.Dense(1)(x))


def main():
    """Train and print the loss of each epoch."""
    dataset = tf.data.Dataset.from_tensor_slices(make_table())
    dataset = dataset.shuffle(ROWS).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    model = build_model()
    optimizer = keras.optimizers.Adam(1e-3)
    loss_of = keras.losses.MeanSquaredError()

    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for epoch in range(EPOCHS):
        mean = keras.metrics.Mean()
        for x, y in dataset:
            mean.update_state(train_step(x, y))
        print(f"epoch {epoch + 1}: loss {float(mean.result()):.4f}")


if __name__ == "__main__":
    main()
