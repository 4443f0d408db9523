"""fit fed by NumPy arrays, steps_per_execution, validation split, argparse, a main guard."""

import argparse

import keras
import numpy as np


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--multi", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    x, y = rng.random((2000, 32), dtype="float32"), rng.integers(0, 10, 2000)
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(10)])
    model.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=args.multi,
    )
    model.fit(x, y, batch_size=32, epochs=args.epochs, validation_split=0.1, verbose=2)
    print("fitted")


if __name__ == "__main__":
    main()
