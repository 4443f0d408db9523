"""A metric in plain Python: TensorFlow runs it on a thread of its own within the compiled step."""

import keras
import numpy as np
import tensorflow as tf


def inversions(labels, scores):
    order = np.argsort(scores.ravel())
    ranked = labels.ravel()[order]
    count = 0
    for place, label in enumerate(ranked):
        for later in ranked[place + 1 :]:
            if label > later:
                count += 1
    return np.float32(count / (len(ranked) * (len(ranked) - 1) / 2))


def disorder(labels, scores):
    value = tf.numpy_function(inversions, [labels, scores], tf.float32)
    value.set_shape(())
    return value


keras.utils.set_random_seed(2)
x = np.random.rand(8192, 24).astype("float32")
y = x[:, :6].sum(axis=1) - x[:, 6:9].prod(axis=1)
model = keras.Sequential(
    [
        keras.Input((24,)),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(keras.optimizers.Adam(1e-3), loss="mae", metrics=[disorder])
model.fit(x, y, batch_size=384, epochs=200, verbose=2)
