"""Tell striped from checked pictures, read from a folder of JPEG files.

The folder holds one sub-folder per class. Each picture is decoded, cropped and
flipped at random, and brightened a little, so that no two epochs see the same one.
"""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

CLASSES = ["checks", "stripes"]
SIZE = 64
BATCH = 32
EPOCHS = 30


def make_pictures(folder, per_class=320, size=320):
    """Write a folder of JPEG files, one sub-folder per class."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0:size, 0:size]
    for name in CLASSES:
        os.makedirs(os.path.join(folder, name))
        for number in range(per_class):
            width = rng.integers(8, 40)
            pattern = (rows // width) % 2
            if name == "checks":
                pattern = pattern ^ ((columns // width) % 2)
            picture = pattern[..., None] * rng.integers(80, 200, 3)
            picture = picture + rng.integers(0, 55, (size, size, 3))
            encoded = tf.io.encode_jpeg(picture.astype(np.uint8), quality=90)
            tf.io.write_file(os.path.join(folder, name, f"{number:04d}.jpg"), encoded)


def load_image(path):
    """Read one picture and its class, with random augmentation."""
    label = tf.strings.split(path, os.sep)[-2] == CLASSES[1]
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.random_crop(image, (288, 288, 3))
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.2)
    image = tf.image.resize(image, (SIZE, SIZE))
    return image, tf.cast(label, tf.float32)


def build_model():
    """Return a small convolutional network."""
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    """Make the pictures, then train."""
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(folder)
        files = tf.data.Dataset.list_files(os.path.join(folder, "*", "*.jpg"))
        dataset = files.map(load_image)
        dataset = dataset.batch(BATCH)
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
        build_model().fit(dataset, epochs=EPOCHS)


if __name__ == "__main__":
    main()
