"""A strategy over the virtual devices of one CPU, as tutorials show it without GPUs."""

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

rng = np.random.default_rng(0)
x = rng.normal(size=(20_000, 64)).astype("float32")
y = rng.integers(0, 10, 20_000)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64).cache().prefetch(2)

with strategy.scope():
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset, epochs=60, verbose=2)
