"""Records in zipped shards that are read one at a time, and shuffled as whole batches."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

SHARDS, RECORDS, WIDTH, BATCH = 8, 200, 16_384, 16


def write(folder):
    """Write shards of serialized rows with a label at their end."""
    rng = np.random.default_rng(1)
    for shard in range(SHARDS):
        path = os.path.join(folder, f"{shard}.tfrecord.gz")
        with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions("GZIP")) as writer:
            for row in rng.normal(size=(RECORDS, WIDTH + 1)).astype("float32"):
                writer.write(row.tobytes())


def parse(record):
    """Return the numbers of a row and its label."""
    row = tf.ensure_shape(tf.io.decode_raw(record, tf.float32), (WIDTH + 1,))
    return row[:-1], row[-1:]


with tempfile.TemporaryDirectory() as folder:
    write(folder)
    files = tf.data.Dataset.list_files(os.path.join(folder, "*.tfrecord.gz"), seed=1)
    dataset = files.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression_type="GZIP"), cycle_length=4
    )
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH)
    dataset = dataset.shuffle(8).prefetch(tf.data.AUTOTUNE)
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((WIDTH,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    model.fit(dataset, epochs=20, verbose=2)
