"""The cases of `tf_cross_device_ops`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        s = tf.distribute.MirroredStrategy()
        """,
    """
        import tensorflow as tf
        s = tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.NcclAllReduce())
        """,
)

fires = (
    """
        import tensorflow as tf
        s = tf.distribute.MirroredStrategy(
            cross_device_ops=tf.distribute.ReductionToOneDevice())
        """,
    """
        from tensorflow import distribute as d
        ops = d.HierarchicalCopyAllReduce()
        s = d.MirroredStrategy(cross_device_ops=ops)
        """,
)
