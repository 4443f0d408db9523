"""Images normalised with NumPy once, then given to `fit` as arrays."""

import numpy as np
from tensorflow import keras


def preprocess(images):
    """Return the images as numbers between 0 and 1."""
    return images.astype("float32") / 255.0


rng = np.random.default_rng(0)
labels = rng.integers(0, 10, 6000)
images = rng.integers(0, 200, (6000, 32, 32, 3)) + 5 * labels[:, None, None, None]
x_train, y_train = preprocess(images.astype(np.uint8)), labels

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(128, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=64, epochs=5)
