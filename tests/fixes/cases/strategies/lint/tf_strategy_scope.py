"""The cases of `tf_strategy_scope`."""

from __future__ import annotations

silent = (
    """
        import keras
        import tensorflow as tf
        strategy = tf.distribute.MirroredStrategy()
        with strategy.scope():
            model = make()
        model.compile('adam')
        model.fit(ds)
        """,
    """
        import keras
        import tensorflow as tf
        strategy = tf.distribute.MirroredStrategy()
        train(strategy)
        model.compile('adam')
        model.fit(ds)
        """,
    """
        import keras
        model.compile('adam')
        model.fit(ds)
        """,
)

fires = (
    """
        import keras
        import tensorflow as tf
        strategy = tf.distribute.MirroredStrategy()
        print(strategy.num_replicas_in_sync)
        model.compile('adam')
        model.fit(ds)
        """,
    """
        import tensorflow as tf
        from tensorflow.distribute import MirroredStrategy
        from tensorflow import keras
        def main():
            s = MirroredStrategy()
            model = keras.Sequential([])
            model.compile('adam')
            model.fit(ds)
        """,
)
