"""The cases of `rnn_cudnn`."""

from __future__ import annotations

silent = (
    """
        import keras
        x = keras.layers.LSTM(8, dropout=0.2, return_sequences=True)(x)
        """,
    """
        import keras
        x = keras.layers.LSTM(8, activation='tanh', recurrent_dropout=0.0)(x)
        """,
    """
        import keras
        x = keras.layers.LSTM(8, recurrent_dropout=rate)(x)
        """,
    """
        import keras
        x = keras.layers.LSTM(8, recurrent_dropout=0.1, use_cudnn=False)(x)
        """,
    """
        import keras
        x = keras.layers.SimpleRNN(8, activation='relu')(x)
        """,
)

fires = (
    """
        import keras
        x = keras.layers.LSTM(8, recurrent_dropout=0.2)(x)
        """,
    """
        from tensorflow.keras import layers
        x = layers.LSTM(8, 'relu')(x)
        """,
    """
        from keras.layers import GRU
        model.add(GRU(8, reset_after=False))
        """,
)
