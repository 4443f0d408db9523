"""A forecast from windows of a long series, which Keras's utility gathers one by one."""

import numpy as np
from tensorflow import keras

HOURS, PAST, STEP, BATCH = 60_000, 360, 6, 256

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
series = np.cumsum(rng.normal(size=(HOURS, 7)), axis=0).astype("float32")
series = (series - series.mean(axis=0)) / series.std(axis=0)
dataset = keras.utils.timeseries_dataset_from_array(
    series[:-72],
    series[PAST + 72 :, 1],
    sequence_length=PAST // STEP,
    sampling_rate=STEP,
    batch_size=BATCH,
)
model = keras.Sequential(
    [
        keras.Input((PAST // STEP, 7)),
        keras.layers.Flatten(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile("adam", "mse")
model.fit(dataset, epochs=10, verbose=2)
