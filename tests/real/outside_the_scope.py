"""A strategy over two devices of a CPU that trains nothing: the model is not of its scope."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
x = rng.normal(size=(20_000, 256)).astype("float32")
y = rng.integers(0, 10, 20_000)
model = keras.Sequential(
    [keras.Input((256,)), keras.layers.Dense(1_024, activation="relu"), keras.layers.Dense(10)]
)
with strategy.scope():
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss)
model.fit(x, y, batch_size=64 * strategy.num_replicas_in_sync, epochs=20, verbose=2)
