"""Pictures for the image questions: JPEG files in a folder."""

import os

import numpy as np
import tensorflow as tf


def write(folder, count, size=512):
    """Write `count` JPEG files and return their paths and labels."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0:size, 0:size]
    paths, labels = [], rng.integers(0, 10, count).astype(np.int32)
    for number, label in enumerate(labels):
        waves = np.sin(rows * (label + 1) / 20) * np.cos(columns * (label + 1) / 20)
        picture = 128 + 60 * waves[..., None] + rng.normal(0, 25, (size, size, 3))
        encoded = tf.io.encode_jpeg(np.clip(picture, 0, 255).astype(np.uint8), quality=90)
        paths.append(os.path.join(folder, f"{number:04d}.jpg"))
        tf.io.write_file(paths[-1], encoded)
    return paths, labels.tolist()
