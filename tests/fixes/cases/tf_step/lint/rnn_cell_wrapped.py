"""The cases of `rnn_cell_wrapped`."""

from __future__ import annotations

silent = (
    """
        import keras
        x = keras.layers.LSTM(8)(x)
        """,
    """
        import keras
        x = keras.layers.RNN(Own(8))(x)
        """,
    """
        import keras
        from keras import layers as l
        x = l.RNN([l.LSTMCell(8), l.LSTMCell(4)])(x)
        """,
)

fires = (
    """
        import keras
        x = keras.layers.RNN(keras.layers.LSTMCell(8))(x)
        """,
    """
        from tensorflow.keras.layers import RNN, GRUCell
        cell = GRUCell(8)
        x = RNN(cell)(x)
        """,
)
