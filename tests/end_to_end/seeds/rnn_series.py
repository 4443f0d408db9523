"""An RNN on price series, its tf.data pipeline parallel and prefetched."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

WINDOW, SERIES = 48, 4000

rng = np.random.default_rng(0)
prices = np.cumsum(rng.normal(0, 1, (SERIES, WINDOW + 1, 4)), axis=1).astype(np.float32)


def preprocess(series):
    """Scale one series by its own mean and spread; the last value is what to predict."""
    mean = tf.reduce_mean(series[:-1], axis=0)
    spread = tf.math.reduce_std(series[:-1], axis=0) + 1e-6
    scaled = (series - mean) / spread
    return scaled[:-1], scaled[-1, :1]


def create_dataset(data):
    """Return shuffled batches."""
    dataset = tf.data.Dataset.from_tensor_slices(data)
    dataset = dataset.map(preprocess, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.shuffle(1000).batch(64).prefetch(tf.data.AUTOTUNE)


train, validation = create_dataset(prices[:3600]), create_dataset(prices[3600:])
model = keras.Sequential(
    [
        keras.Input((WINDOW, 4)),
        keras.layers.LSTM(64),
        keras.layers.Dense(1),
    ]
)
model.compile(keras.optimizers.Adam(1e-3), "mse")
stop = keras.callbacks.EarlyStopping("val_loss", patience=10, restore_best_weights=True)
model.fit(train, epochs=20, validation_data=validation, callbacks=[stop])
