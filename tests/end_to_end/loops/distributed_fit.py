"""MirroredStrategy on two logical CPU devices, Keras fit."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
dataset = tf.data.Dataset.from_tensor_slices(
    (tf.random.normal((1024, 32)), tf.random.uniform((1024,), 0, 2, tf.int32))
).batch(64)
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((32,)), tf.keras.layers.Dense(32), tf.keras.layers.Dense(2)]
    )
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset, epochs=100, verbose=2)
