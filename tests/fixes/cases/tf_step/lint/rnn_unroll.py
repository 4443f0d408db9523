"""The cases of `rnn_unroll`."""

from __future__ import annotations

silent = (
    """
        import keras
        x = keras.layers.LSTM(8)(x)
        """,
    """
        import keras
        x = keras.layers.LSTM(8, unroll=short)(x)
        """,
)

fires = (
    """
        import keras
        x = keras.layers.LSTM(8, unroll=True)(x)
        """,
    """
        from tensorflow.keras.layers import GRU
        model.add(GRU(8, unroll=True))
        """,
)
