"""The cases of `tf_batch_before_shuffle`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).shuffle(9).batch(3)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).batch(3).unbatch().shuffle(9)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).shuffle(9).batch(3).shuffle(3)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.list_files('*.png').map(load).batch(3).shuffle(9)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9)
        if training:
            ds = ds.shuffle(9)
        ds = ds.batch(3).shuffle(3)
        """,
)

fires = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(3).shuffle(9)
        """,
    """
        import tensorflow as tf
        def make():
            ds = tf.data.TFRecordDataset(files)
            ds = ds.map(parse)
            ds = ds.batch(32).cache()
            return ds.shuffle(1000)
        """,
)
