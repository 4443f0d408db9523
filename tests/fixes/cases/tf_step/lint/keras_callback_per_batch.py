"""The cases of `keras_callback_per_batch`."""

from __future__ import annotations

silent = (
    """
        import keras
        cb = keras.callbacks.ModelCheckpoint('a', save_freq='epoch')
        """,
    """
        import keras
        cb = keras.callbacks.ModelCheckpoint('a', save_freq=5000)
        """,
    """
        import keras
        cb = keras.callbacks.TensorBoard('logs')
        """,
    """
        import keras
        class Log(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if batch % 100 == 0:
                    print(logs)
        """,
    """
        import keras
        class Log(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                self.seen += 1
        """,
)

fires = (
    """
        import keras
        cb = keras.callbacks.ModelCheckpoint('a', save_freq=1)
        """,
    """
        from tensorflow.keras.callbacks import TensorBoard
        cb = TensorBoard('logs', update_freq='batch')
        """,
    """
        import tensorflow as tf
        class Log(tf.keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                print(batch, logs)
        """,
)
