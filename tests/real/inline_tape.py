"""A loop of its own around a gradient tape, eager: how guides show it first."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(20_000, 64)).astype("float32")
y = (x[:, :10].argmax(axis=1)).astype("int64")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024, seed=0).batch(32)

model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)]
)
optimizer = keras.optimizers.Adam(1e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
accuracy = keras.metrics.SparseCategoricalAccuracy()

for epoch in range(40):
    print(f"epoch {epoch}")
    for step, (x_batch, y_batch) in enumerate(dataset):
        with tf.GradientTape() as tape:
            logits = model(x_batch, training=True)
            loss = loss_fn(y_batch, logits)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply(gradients, model.trainable_weights)
        accuracy.update_state(y_batch, logits)
        if step % 200 == 0:
            print(f"step {step}: loss {float(loss):.4f}")
    print(f"accuracy {float(accuracy.result()):.3f}")
    accuracy.reset_state()
