"""The cases of `tf_py_function`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).map(lambda x: x + 1)
        """,
    """
        import tensorflow as tf
        y = tf.py_function(f, [x], tf.float32)
        """,
)

fires = (
    """
        import tensorflow as tf
        def load(path):
            return tf.py_function(read, [path], tf.float32)
        ds = tf.data.Dataset.list_files('*').map(load, num_parallel_calls=4)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(3).map(lambda i: tf.numpy_function(make, [i], tf.int64))
        """,
)
