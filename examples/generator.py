"""Recognise spoken commands from spectrograms that a Python generator computes.

The clips are made here: each command is a rising or falling tone in noise.
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

RATE = 16_000
FRAME, HOP, BANDS = 512, 128, 40
COMMANDS = 4
CLIPS = 2_000
BATCH = 32


def record_clip(command, rng):
    """Return one second of sound: a sweep between two pitches, and noise."""
    seconds = np.arange(RATE) / RATE
    start, end = [(300, 900), (900, 300), (600, 2400), (2400, 600)][command]
    sweep = np.sin(2 * np.pi * (start * seconds + (end - start) / 2 * seconds**2))
    return (sweep + rng.normal(0, 0.5, RATE)).astype(np.float32)


def band_filters():
    """Return triangular filters over the FFT bins, one row per band."""
    edges = np.geomspace(4, FRAME // 2, BANDS + 2)
    bins = np.arange(FRAME // 2 + 1)
    rows = []
    for low, middle, high in zip(edges, edges[1:], edges[2:], strict=False):
        up, down = (bins - low) / (middle - low), (high - bins) / (high - middle)
        rows.append(np.clip(np.minimum(up, down), 0, None))
    return np.array(rows, np.float32)


def spectrogram(clip, filters):
    """Return the log energies of a clip, one row per frame."""
    window = np.hanning(FRAME)
    frames = []
    for start in range(0, len(clip) - FRAME, HOP):
        spectrum = np.abs(np.fft.rfft(window * clip[start : start + FRAME])) ** 2
        frames.append(np.log(filters @ spectrum + 1e-6))
    return np.array(frames, np.float32)


def samples():
    """Yield a spectrogram and its command, for ever new clips."""
    rng = np.random.default_rng()
    filters = band_filters()
    for command in rng.integers(0, COMMANDS, CLIPS):
        yield spectrogram(record_clip(command, rng), filters), command


def main():
    """Train a small network on what the generator yields."""
    frames = len(range(0, RATE - FRAME, HOP))
    dataset = tf.data.Dataset.from_generator(
        samples,
        output_signature=(
            tf.TensorSpec((frames, BANDS), tf.float32),
            tf.TensorSpec((), tf.int32),
        ),
    )
    dataset = dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)
    model = keras.Sequential(
        [
            keras.Input((frames, BANDS)),
            keras.layers.Conv1D(64, 5, strides=2, activation="relu"),
            keras.layers.Conv1D(64, 5, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(COMMANDS, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(dataset, epochs=4)


if __name__ == "__main__":
    main()
