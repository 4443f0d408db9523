"""The input pipeline."""

import tensorflow as tf


def load(index):
    return tf.random.stateless_uniform((16,), [index, 0]), index % 4


def training_data(batch_size):
    dataset = tf.data.Dataset.range(1600)
    dataset = dataset.map(load)
    return dataset.batch(batch_size)
