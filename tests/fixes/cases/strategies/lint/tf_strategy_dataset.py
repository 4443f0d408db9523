"""The cases of `tf_strategy_dataset`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).batch(3)
        ds = strategy.experimental_distribute_dataset(ds)
        for x in ds:
            strategy.run(step, args=(x,))
        """,
    """
        import tensorflow as tf
        for x in make():
            strategy.run(step, args=(x,))
        """,
)

fires = (
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).batch(3)
        for x in ds:
            strategy.run(step, args=(x,))
        """,
    """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).batch(3)
        def main():
            for i, (x, y) in enumerate(ds):
                strategy.run(step, (x, y))
        """,
)
