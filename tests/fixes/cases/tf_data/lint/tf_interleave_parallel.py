"""The cases of `tf_interleave_parallel`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.list_files('*').interleave(
            tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).interleave(lambda x: tf.data.Dataset.range(x))
        """,
)

fires = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.list_files('*').interleave(tf.data.TFRecordDataset, cycle_length=4)
        """,
    """
        import tensorflow as tf
        files = tf.data.Dataset.from_tensor_slices(names)
        ds = files.interleave(lambda f: tf.data.TextLineDataset(f).skip(1))
        """,
)
