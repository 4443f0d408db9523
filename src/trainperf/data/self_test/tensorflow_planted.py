"""A training whose items and steps take a known time, for `trainperf doctor --self-test`."""

from __future__ import annotations

import argparse
import json
import time

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--item", type=float, default=0.03, help="seconds an item takes")
parser.add_argument("--step", type=float, default=0.05, help="seconds a step takes")
parser.add_argument("--ahead", type=int, default=0, help="items that are made ahead")
parser.add_argument("--per-second", type=float, default=0.0, help="GPU products in a second")
parser.add_argument("--steps", type=int, default=0, help="time so many steps, then end")
parser.add_argument("--calibrate", action="store_true")
options = parser.parse_args()

GPUS = tf.config.list_physical_devices("GPU")
for gpu in GPUS:
    tf.config.experimental.set_memory_growth(gpu, True)
SIDE = 2048


def waited(index):  # type: ignore[no-untyped-def]
    """An item that is waited for, as for a disk."""
    time.sleep(options.item)
    return index


def load(index):  # type: ignore[no-untyped-def]
    """A batch."""
    number = tf.numpy_function(waited, [index], tf.int64)
    number = tf.ensure_shape(number, [])
    return tf.fill((8, 16), tf.cast(number % 7, tf.float32) / 7)


@tf.function
def products(count):  # type: ignore[no-untyped-def]
    """So many products of matrices, each after the one before."""
    one = tf.eye(SIDE)
    x = one
    for _ in tf.range(count):
        x = x @ one
    return x[0, 0]


def products_per_second() -> float:
    """How many products the GPU makes in a second, once it runs at its clock."""
    rate, count = 0.0, 50
    for _ in range(8):
        begin = time.perf_counter()
        float(products(tf.constant(count)))
        rate = count / (time.perf_counter() - begin)
        count = max(1, int(0.2 * rate))
    return rate


layers = [tf.keras.layers.Dense(16), tf.keras.layers.Dense(1)]
model = tf.keras.Sequential(layers)
optimizer = tf.keras.optimizers.SGD(0.01)


@tf.function
def update(x, work):  # type: ignore[no-untyped-def]
    """One step of the training."""
    if GPUS:
        x = x + 1e-30 * products(work)  # a factor of 0 would be folded, and they with it
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - tf.reduce_sum(x, 1, keepdims=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


def train() -> None:
    """Train; with `--steps`, say what a step takes between two waits for the device."""
    model.build((None, 16))
    optimizer.build(model.trainable_variables)
    work = tf.constant(int(options.step * options.per_second))
    dataset = tf.data.Dataset.range(1_000_000).map(load)
    if options.ahead:
        dataset = dataset.prefetch(options.ahead)
    first, begin, loss = 8, 0.0, tf.constant(0.0)
    for number, x in enumerate(dataset):
        if number == first:
            float(loss)
            begin = time.perf_counter()
        if options.steps and number == first + options.steps:
            float(loss)
            print(json.dumps({"step_s": (time.perf_counter() - begin) / options.steps}))
            return
        loss = update(x, work)
        if not GPUS:
            time.sleep(options.step)


if options.calibrate:
    rate = products_per_second() if GPUS else 0.0
    gpu = (
        str(tf.config.experimental.get_device_details(GPUS[0]).get("device_name", ""))
        if GPUS
        else ""
    )
    print(json.dumps({"version": tf.__version__, "gpu": gpu, "per_second": rate}))
else:
    train()
