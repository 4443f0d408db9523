"""The cases of `tf_generator`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        def rows():
            yield from array
        ds = tf.data.Dataset.from_generator(rows, output_signature=s)
        """,
    """
        import tensorflow as tf
        def rows():
            for line in open('names.txt'):
                yield line
        ds = tf.data.Dataset.from_generator(rows, output_signature=s)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.from_generator(rows, tf.int32)
        """,
)

fires = (
    """
        import numpy as np
        import tensorflow as tf
        def images():
            for path in paths:
                yield np.load(path)
        ds = tf.data.Dataset.from_generator(images, output_signature=s)
        """,
    """
        from PIL import Image
        import tensorflow as tf
        def load(path):
            return Image.open(path)
        def images():
            for path in paths:
                yield load(path)
        ds = tf.data.Dataset.from_generator(lambda: images(), tf.uint8)
        """,
)
