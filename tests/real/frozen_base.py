"""A new head on a base that does not train, which computes the same in every epoch."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

SIZE, PICTURES, BATCH = 96, 640, 32

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
pictures = rng.integers(0, 256, (PICTURES, SIZE, SIZE, 3), dtype="uint8")
labels = rng.integers(0, 5, PICTURES)
dataset = tf.data.Dataset.from_tensor_slices((pictures, labels)).shuffle(PICTURES).batch(BATCH)

base = keras.applications.MobileNetV2(
    input_shape=(SIZE, SIZE, 3), alpha=0.35, include_top=False, pooling="avg", weights=None
)
base.trainable = False
model = keras.Sequential(
    [
        keras.Input((SIZE, SIZE, 3)),
        keras.layers.Rescaling(1 / 127.5, offset=-1),
        base,
        keras.layers.Dropout(0.2),
        keras.layers.Dense(5),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset.prefetch(tf.data.AUTOTUNE), epochs=8, verbose=2)
