"""The cases of `tf_shuffle_buffer`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        def load(p):
            return tf.io.decode_jpeg(tf.io.read_file(p))
        ds = tf.data.Dataset.list_files('*').shuffle(1000).map(load)
        """,
    """
        import tensorflow as tf
        def load(p):
            return tf.io.decode_jpeg(tf.io.read_file(p))
        ds = tf.data.Dataset.list_files('*').map(load).cache().shuffle(1000)
        """,
    """
        import tensorflow as tf
        def load(p):
            return tf.io.decode_jpeg(tf.io.read_file(p))
        ds = tf.data.Dataset.list_files('*').map(load).shuffle(16)
        """,
)

fires = (
    """
        import tensorflow as tf
        def load(p):
            return tf.io.decode_jpeg(tf.io.read_file(p))
        ds = tf.data.Dataset.list_files('*').map(load).shuffle(1000)
        """,
    """
        import tensorflow as tf
        BUFFER = 5000
        def load(p, y):
            return tf.image.decode_image(tf.io.read_file(p)), y
        ds = tf.data.Dataset.from_tensor_slices((paths, labels))
        ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.repeat().shuffle(buffer_size=BUFFER)
        """,
)
