"""Classify reviews of very different lengths with an LSTM.

The reviews are made here: words drawn from two overlapping vocabularies. Most are
short, a few are long, as reviews are. All are padded to the longest one.
"""

import numpy as np
from tensorflow import keras

WORDS = 5_000
REVIEWS = 3_000
BATCH = 32


def write_reviews():
    """Return token lists of unequal length and whether each review is a good one."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(3.6, 0.7, REVIEWS), 8, 360).astype(int)
    good = rng.integers(0, 2, REVIEWS)
    reviews = []
    for length, positive in zip(lengths, good, strict=True):
        words = rng.zipf(1.3, length) % (WORDS // 2)
        opinion = rng.random(length) < 0.2
        words[opinion] += positive * WORDS // 2
        reviews.append((words + 1).tolist())
    return reviews, good.astype(np.float32)


def build_model(length):
    """Return an LSTM over word vectors."""
    model = keras.Sequential(
        [
            keras.Input((length,), dtype="int32"),
            keras.layers.Embedding(WORDS + 1, 32, mask_zero=True),
            keras.layers.LSTM(64),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    """Pad the reviews and train."""
    reviews, good = write_reviews()
    longest = max(len(review) for review in reviews)
    padded = keras.utils.pad_sequences(reviews, maxlen=longest, padding="post")
    model = build_model(longest)
    model.fit(padded, good, batch_size=BATCH, epochs=3)


if __name__ == "__main__":
    main()
