"""Train on small pictures, each batch prepared with NumPy just before it is used.

The pictures are made here: blobs of colour. Each is shifted, flipped, given some
noise and scaled to zero mean and unit variance.
"""

import numpy as np
from tensorflow import keras

IMAGES = 4_000
SIZE = 32
BATCH = 64
EPOCHS = 30


def make_pictures(rng):
    """Return pictures as bytes, and the colour channel that is strongest in each."""
    labels = rng.integers(0, 3, IMAGES)
    pictures = rng.integers(0, 160, (IMAGES, SIZE, SIZE, 3))
    pictures[np.arange(IMAGES), 8:24, 8:24, labels] += 60
    return pictures.astype(np.uint8), labels


def augment(picture, rng):
    """Return one picture, changed at random and normalised."""
    picture = picture.astype(np.float64)
    picture = np.roll(picture, rng.integers(-4, 5, 2), axis=(0, 1))
    if rng.random() < 0.5:
        picture = picture[:, ::-1]
    picture = picture + rng.normal(0, 8, picture.shape)
    picture = np.clip(picture, 0, 255)
    return (picture - picture.mean()) / picture.std()


def get_batch(pictures, labels, rng):
    """Return a random batch, ready for the model."""
    chosen = rng.integers(0, len(pictures), BATCH)
    batch = np.stack([augment(pictures[index], rng) for index in chosen])
    return batch.astype(np.float32), labels[chosen]


def build_model():
    """Return a small convolutional network."""
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    return model


def main():
    """Train batch by batch and print the mean loss of each epoch."""
    rng = np.random.default_rng(0)
    pictures, labels = make_pictures(rng)
    model = build_model()
    for epoch in range(EPOCHS):
        losses = []
        for _ in range(IMAGES // BATCH):
            x, y = get_batch(pictures, labels, rng)
            losses.append(model.train_on_batch(x, y))
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")


if __name__ == "__main__":
    main()
