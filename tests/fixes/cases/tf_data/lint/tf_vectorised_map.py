"""The cases of `tf_vectorised_map`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.from_tensor_slices(x).batch(3).map(lambda x: x / 255)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.from_tensor_slices(x).map(lambda x: tf.reduce_sum(x)).batch(3)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.from_tensor_slices(x).map(load).map(lambda x: x / 255).batch(3)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.from_tensor_slices(x).map(lambda x: x[0] / 2).batch(3)
        """,
)

fires = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.from_tensor_slices((x, y))
        ds = ds.shuffle(99).map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y)).batch(32)
        """,
    """
        import tensorflow as tf
        def scale(x):
            return (tf.cast(x, tf.float32) - 127.5) / 127.5
        ds = tf.data.Dataset.from_tensor_slices(x).map(scale).batch(32)
        """,
)
