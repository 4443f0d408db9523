"""Train a language model with `MirroredStrategy` on two logical CPU devices.

Run it with `python mirrored_rnn.py`; diagnose it with `trainperf diagnose mirrored_rnn.py`.
"""

import numpy as np
import tensorflow as tf

DEVICES = 2
VOCABULARY = 16_384
SENTENCES = 4_096
LENGTH = 4
WIDTH = 256
BATCH = 2  # of each device
EPOCHS = 4


def make_sentences():
    """Return sentences in which each word follows from the one before it, with some noise."""
    rng = np.random.default_rng(0)
    starts = rng.integers(VOCABULARY, size=(SENTENCES, 1))
    steps = rng.integers(5, size=(SENTENCES, LENGTH + 1))
    return ((starts + steps.cumsum(axis=1)) % VOCABULARY).astype(np.int32)


def make_dataset(batch):
    """Return batches of sentences, and the word that follows each."""
    sentences = make_sentences()
    dataset = tf.data.Dataset.from_tensor_slices((sentences[:, :-1], sentences[:, -1]))
    dataset = dataset.shuffle(SENTENCES).batch(batch, drop_remainder=True)
    return dataset.prefetch(tf.data.AUTOTUNE)


def build_model():
    """Return a recurrent network that gives a score to each next word."""
    return tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(VOCABULARY, WIDTH),
            tf.keras.layers.GRU(WIDTH, unroll=True),
            tf.keras.layers.Dense(VOCABULARY),
        ]
    )


def main():
    """Train one model copy on each device."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(DEVICES)]
    tf.config.set_logical_device_configuration(cpu, logical)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(DEVICES)])
    with strategy.scope():
        model = build_model()
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=tf.keras.optimizers.SGD(0.5), loss=loss)
    dataset = make_dataset(BATCH * strategy.num_replicas_in_sync)
    model.fit(dataset, epochs=EPOCHS, verbose=2)


if __name__ == "__main__":
    main()
