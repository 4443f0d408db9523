"""A Keras `fit` that stamps the end of every step: the workload of the benchmarks.

    python fit.py --width 64 --seconds 5 --stamps FILE

`FILE` is an array of `time.perf_counter()` in seconds, zeros at its end.
"""

import argparse
import time

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--seconds", type=float, default=5.0)
parser.add_argument("--work", type=int, default=0, help="rounds of work per element of the input")
parser.add_argument("--epoch", type=int, default=1_000_000, help="steps of an epoch")
parser.add_argument("--stamps", required=True)
args = parser.parse_args()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

# One core for the step: on a small or busy machine the share of a second one comes and goes.
tf.config.threading.set_intra_op_parallelism_threads(1)
stamps = np.memmap(args.stamps, dtype="float64", mode="r+")


class Stamp(keras.callbacks.Callback):
    """Stamps steps, and ends the training when the time is up."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        stamps[self.count] = now
        self.count += 1
        if now - stamps[0] > args.seconds:
            self.model.stop_training = True


def slow(x, y):
    for _ in range(args.work):
        x = tf.math.sin(x)
    return x, y


rng = np.random.default_rng(0)
x = rng.standard_normal((1024, args.width)).astype("float32")
y = rng.integers(0, 10, 1024)
data = tf.data.Dataset.from_tensor_slices((x, y))
if args.work:
    data = data.map(slow)
data = data.batch(args.batch, drop_remainder=True).repeat().prefetch(2)
model = keras.Sequential(
    [
        keras.Input((args.width,)),
        keras.layers.Dense(args.width, activation="relu"),
        keras.layers.Dense(args.width, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(data, steps_per_epoch=args.epoch, epochs=1_000, verbose=0, callbacks=[Stamp()])
