"""Phrases of a few to many words, in a pipeline that pads each batch to its longest."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

WORDS, PHRASES = 2_000, 4_000

rng = np.random.default_rng(0)
lengths = np.clip(rng.lognormal(3.4, 0.9, PHRASES).astype(int), 4, 400)
words = rng.integers(1, WORDS, lengths.sum()).astype("int32")
phrases = tf.RaggedTensor.from_row_lengths(words, lengths)
moods = rng.integers(0, 2, PHRASES).astype("float32")

data = tf.data.Dataset.from_tensor_slices((phrases, moods)).cache().shuffle(PHRASES)
data = data.map(lambda phrase, mood: (tf.concat([[1], phrase], 0), mood))
data = data.padded_batch(32)
data = data.prefetch(tf.data.AUTOTUNE)

inputs = keras.Input((None,), dtype="int32")
x = keras.layers.Embedding(WORDS, 64, mask_zero=True)(inputs)
x = keras.layers.GRU(48)(x)
model = keras.Model(inputs, keras.layers.Dense(1)(x))
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(data, epochs=30, verbose=2)
