"""Reviews that are padded in front, to the longest of all, ahead of their batches."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

WORDS, REVIEWS, BATCH = 5_000, 3_000, 32

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
lengths = np.minimum(400, rng.lognormal(3.5, 0.7, REVIEWS).astype(int) + 1)
reviews = [rng.integers(1, WORDS, length) for length in lengths]
good = rng.integers(0, 2, REVIEWS)
rows = keras.utils.pad_sequences(reviews)
dataset = tf.data.Dataset.from_tensor_slices((rows, good)).shuffle(REVIEWS)
dataset = dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)
model = keras.Sequential(
    [
        keras.Input((None,), dtype="int32"),
        keras.layers.Embedding(WORDS, 32, mask_zero=True),
        keras.layers.GRU(32),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy")
model.fit(dataset, epochs=5, verbose=2)
