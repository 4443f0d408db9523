"""The cases of `keras_run_eagerly`."""

from __future__ import annotations

silent = (
    """
        import keras
        model.compile('adam', run_eagerly=False)
        """,
    """
        import keras
        model.compile('adam', run_eagerly=args.debug)
        """,
    """
        import tensorflow as tf
        if DEBUG:
            tf.config.run_functions_eagerly(True)
        """,
    """
        import tensorflow as tf
        tf.config.run_functions_eagerly(True)
        f(x)
        tf.config.run_functions_eagerly(False)
        """,
)

fires = (
    """
        import keras
        model.compile('adam', 'mse', run_eagerly=True)
        """,
    """
        import tensorflow as tf
        EAGER = True
        tf.config.run_functions_eagerly(EAGER)
        """,
    """
        from tensorflow import keras
        model = keras.Sequential()
        model.run_eagerly = True
        """,
)
