"""A step by hand over sequences of any length, one at a time: a trace for each new length."""

import random

import tensorflow as tf

WIDTH = 32
random.seed(4)
cell = tf.Variable(tf.random.normal((WIDTH, WIDTH), stddev=0.1, seed=1))
head = tf.Variable(tf.random.normal((WIDTH, 1), stddev=0.1, seed=2))
optimizer = tf.keras.optimizers.SGD(1e-3)


def series():
    length = random.randrange(30, 3000)
    steps = tf.random.normal((length, WIDTH))
    return steps, tf.reduce_sum(steps, axis=1, keepdims=True)


@tf.function
def train_step(steps, sums):
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(steps @ cell)
        smooth = tf.nn.conv1d(hidden[None], tf.ones((5, WIDTH, WIDTH)) / 5, 1, "SAME")[0]
        loss = tf.reduce_mean(tf.abs(smooth @ head - sums))
    gradients = tape.gradient(loss, [cell, head])
    optimizer.apply_gradients(zip(gradients, [cell, head], strict=True))
    return loss


total = 0.0
for turn in range(2500):
    steps, sums = series()
    total += float(train_step(steps, sums))
    if turn % 100 == 99:
        print(f"{turn + 1}: {total / 100:.3f}", flush=True)
        total = 0.0
