"""Pictures of a `PyDataset` that are read and shrunk anew in every epoch, then mirrored."""

import os
import tempfile

import keras
import numpy as np

PICTURES, SIZE, BATCH = 640, 32, 32


def shrunk(picture):
    """Return the means of squares of a picture."""
    side = len(picture) // SIZE
    return picture.reshape(SIZE, side, SIZE, side, 3).mean(axis=(1, 3))


class Pictures(keras.utils.PyDataset):
    """Batches of pictures in files and their labels."""

    def __init__(self, paths, labels, **options):
        super().__init__(**options)
        self.paths, self.labels = paths, labels
        self.rng = np.random.default_rng(1)

    def __len__(self):
        return len(self.paths) // BATCH

    def __getitem__(self, index):
        low = index * BATCH
        pictures = []
        for path in self.paths[low : low + BATCH]:
            picture = shrunk(np.load(path).astype("float32") / 255)
            if self.rng.random() < 0.5:
                picture = picture[:, ::-1]
            pictures.append(picture)
        return np.stack(pictures), self.labels[low : low + BATCH]


with tempfile.TemporaryDirectory() as folder:
    rng = np.random.default_rng(1)
    paths = [os.path.join(folder, f"{number}.npy") for number in range(PICTURES)]
    for path in paths:
        np.save(path, rng.integers(0, 256, (256, 256, 3), dtype="uint8"))
    layers = [keras.layers.Flatten(), keras.layers.Dense(32, "relu"), keras.layers.Dense(5)]
    model = keras.Sequential([keras.Input((SIZE, SIZE, 3)), *layers])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(Pictures(paths, rng.integers(0, 5, PICTURES)), epochs=10, verbose=2)
