"""A custom training loop that stamps the end of every step; see fit.py."""

import argparse
import time

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--seconds", type=float, default=5.0)
parser.add_argument("--stamps", required=True)
args = parser.parse_args()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

# One core for the step: on a small or busy machine the share of a second one comes and goes.
tf.config.threading.set_intra_op_parallelism_threads(1)
stamps = np.memmap(args.stamps, dtype="float64", mode="r+")

rng = np.random.default_rng(0)
x = rng.standard_normal((1024, args.width)).astype("float32")
y = rng.integers(0, 10, 1024)
data = tf.data.Dataset.from_tensor_slices((x, y))
data = data.batch(args.batch, drop_remainder=True).repeat().prefetch(2)
model = keras.Sequential(
    [
        keras.Input((args.width,)),
        keras.layers.Dense(args.width, activation="relu"),
        keras.layers.Dense(args.width, activation="relu"),
        keras.layers.Dense(10),
    ]
)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(0.01)


@tf.function
def train_step(features, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(features, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


for count, (features, labels) in enumerate(data):
    train_step(features, labels)
    stamps[count] = now = time.perf_counter()
    if now - stamps[0] > args.seconds:
        break
