"""The cases of `float64_input`."""

from __future__ import annotations

silent = (
    """
        import keras
        keras.backend.set_floatx('float32')
        """,
    """
        import keras
        model.fit(x.astype('float32'), y)
        """,
    """
        import numpy as np
        from sklearn.svm import SVC
        SVC().fit(x.astype(np.float64), y)
        """,
)

fires = (
    """
        import tensorflow as tf
        tf.keras.backend.set_floatx('float64')
        """,
    """
        import keras
        import numpy as np
        x = x0.astype(np.float64) / 255
        model = keras.Sequential([])
        model.fit(x, y)
        """,
)
