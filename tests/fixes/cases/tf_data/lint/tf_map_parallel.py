"""The cases of `tf_map_parallel`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).map(lambda x: x + 1)
        """,
    """
        import tensorflow as tf
        def noisy(x):
            return x + tf.random.normal([3])
        ds = tf.data.Dataset.range(9).map(noisy, num_parallel_calls=tf.data.AUTOTUNE)
        """,
    """
        import tensorflow as tf
        def noisy(x):
            return tf.image.stateless_random_crop(x, [3, 3, 3], (1, 2))
        ds = tf.data.Dataset.range(9).map(noisy)
        """,
    """
        import pandas as pd
        import tensorflow as tf
        s = pd.Series([1]).map(lambda x: tf.random.normal([x]))
        """,
)

fires = (
    """
        import tensorflow as tf
        def noisy(x):
            return tf.image.random_flip_left_right(x)
        ds = tf.data.Dataset.list_files('*.png')
        ds = ds.map(noisy)
        """,
    """
        from tensorflow.data import Dataset
        import tensorflow as tf
        ds = Dataset.range(9).map(lambda x: x + tf.random.uniform([]), None).batch(3)
        """,
)
