"""`PyDataset`s before and after what they make of an item is kept; some are left alone."""

from __future__ import annotations

from rewriting import Example
from trainperf.fixes.common.keeping import in_memory

FILES: dict[str, object] = {"files": []}

COPIED = in_memory("made_once", functools="functools", copy="copy")
PLAIN = in_memory("made_once", functools="functools")

HEAD = """\
import random
import cv2
import numpy as np
import keras
"""


def _alone(item: str, rest: str = "", batch: str = "self.files[index]") -> Example:
    text = f"""\
{HEAD}

class Photos(keras.utils.PyDataset):
    ▸def __getitem__(self, index):◂
        return np.stack([{item} for path in {batch}])
{rest}"""
    return Example.untouched(text, FILES)


EXAMPLES = [
    # randomness within the helper, ahead of all work; a generator of its own; a clock
    _alone(
        "self.load(path)",
        """
    def load(self, path):
        size = random.choice([64, 96])
        return cv2.resize(cv2.imread(path.format(size)), (size, size))
""",
    ),
    _alone("self.rng.normal(size=(9, 9))"),
    _alone("noisy(path)", "\n\ndef noisy(path):\n    return np.random.normal(cv2.imread(path))\n"),
    # a counter, a list that grows, a file that is written, a setting that changes
    _alone(
        "self.load(path)",
        "\n    def load(self, path):\n        self.seen += 1\n        return self.seen\n",
    ),
    _alone("convert(path)", '\n\ndef convert(path):\n    cv2.imwrite(path + ".png", path)\n'),
    _alone(
        "cv2.resize(path, self.size)", "\n    def on_epoch_end(self):\n        self.size = (9, 9)\n"
    ),
    # nothing that costs; what is mixed in each epoch, though the constructor calls that as well
    _alone("self.labels[path]"),
    _alone(
        "cv2.imread(self.files[self.order[path]])",
        """
    def __init__(self):
        self.on_epoch_end()

    def on_epoch_end(self):
        np.random.shuffle(self.order)
""",
        "range(32)",
    ),
    # a row of a table, by which nothing can be looked up
    _alone("cv2.imread(path[1].file)", "", "self.table.sample(8).iterrows()"),
    # a list that the caller gave
    Example.untouched(
        f"{HEAD}\n\nclass Photos(keras.utils.PyDataset):\n"
        "    ▸def __getitem__(self, index):◂\n"
        "        paths = self.files[index : index + 8]\n"
        "        random.shuffle(paths)\n"
        "        return [cv2.imread(paths[k]) for k in range(8)]\n",
        FILES,
    ),
    Example(  # a method for each item, turned by chance
        before=f"""\
{HEAD}

class Photos(keras.utils.PyDataset):
    ▸def __getitem__(self, index):◂
        x = []
        for i in self.order[index * 8 : index * 8 + 8]:
            img = self.load(self.files[i])
            if self.rng.random() < 0.5:
                img = img[:, ::-1]
            x.append(img)
        return np.stack(x), self.labels[index]

    def load(self, path):
        return cv2.resize(cv2.imread(path), (96, 96))

    def on_epoch_end(self):
        self.rng.shuffle(self.order)
""",
        after=f"""\
{HEAD}import functools
import copy


{COPIED}

@made_once
def made_item(self, i):
    img = self.load(self.files[i])
    return img


class Photos(keras.utils.PyDataset):
    def __getitem__(self, index):
        x = []
        for i in self.order[index * 8 : index * 8 + 8]:
            img = made_item(self, i)
            if self.rng.random() < 0.5:
                img = img[:, ::-1]
            x.append(img)
        return np.stack(x), self.labels[index]

    def load(self, path):
        return cv2.resize(cv2.imread(path), (96, 96))

    def on_epoch_end(self):
        self.rng.shuffle(self.order)
""",
        data=FILES,
    ),
    Example(  # a batch's own expression; files that are shuffled, so it is kept by the file
        before=f"""\
{HEAD}

class Photos(keras.utils.PyDataset):
    ▸def __getitem__(self, index):◂
        batch = self.files[index * 8 : index * 8 + 8]
        return np.array([cv2.resize(cv2.imread(name), (200, 200)) for name in batch])

    def on_epoch_end(self):
        random.shuffle(self.files)
""",
        after=f"""\
{HEAD}import functools
import copy


{COPIED}

@made_once
def made_item(self, name):
    return cv2.resize(cv2.imread(name), (200, 200))


class Photos(keras.utils.PyDataset):
    def __getitem__(self, index):
        batch = self.files[index * 8 : index * 8 + 8]
        return np.array([made_item(self, name) for name in batch])

    def on_epoch_end(self):
        random.shuffle(self.files)
""",
        data=FILES,
    ),
    Example(  # written into an array, which is a copy; the method is followed
        before=f"""\
{HEAD}

class Volumes(keras.utils.PyDataset):
    def __init__(self, names):
        self.names = names
        self.on_epoch_end()

    ▸def __getitem__(self, index):◂
        chosen = self.indexes[index * 8 : index * 8 + 8]
        return self.generate([self.names[k] for k in chosen])

    def on_epoch_end(self):
        self.indexes = np.arange(len(self.names))
        np.random.shuffle(self.indexes)

    def generate(self, names):
        x = np.empty((8, 32, 32))
        for i, name in enumerate(names):
            x[i,] = np.load("data/" + name + ".npy")
        return x
""",
        after=f"""\
{HEAD}import functools


{PLAIN}

@made_once
def made_item(self, name):
    return np.load("data/" + name + ".npy")


class Volumes(keras.utils.PyDataset):
    def __init__(self, names):
        self.names = names
        self.on_epoch_end()

    def __getitem__(self, index):
        chosen = self.indexes[index * 8 : index * 8 + 8]
        return self.generate([self.names[k] for k in chosen])

    def on_epoch_end(self):
        self.indexes = np.arange(len(self.names))
        np.random.shuffle(self.indexes)

    def generate(self, names):
        x = np.empty((8, 32, 32))
        for i, name in enumerate(names):
            x[i,] = made_item(self, name)
        return x
""",
        data=FILES,
    ),
    Example(  # a method that draws behind its work, for a row of a table
        before=f"""\
{HEAD}

class Photos(keras.utils.PyDataset):
    ▸def __getitem__(self, index):◂
        rows = self.table.iloc[index * 8 : index * 8 + 8]
        return np.stack([self.load(row["file"]) for _, row in rows.iterrows()])

    def load(self, path):
        img = cv2.imread(path)
        img = cv2.resize(img, (96, 96))
        if random.random() < 0.5:
            img += 20
        return img
""",
        after=f"""\
{HEAD}import functools
import copy


{COPIED}

@made_once
def made_item(self, path):
    img = cv2.imread(path)
    img = cv2.resize(img, (96, 96))
    return img


class Photos(keras.utils.PyDataset):
    def __getitem__(self, index):
        rows = self.table.iloc[index * 8 : index * 8 + 8]
        return np.stack([self.load(row["file"]) for _, row in rows.iterrows()])

    def load(self, path):
        img = made_item(self, path)
        if random.random() < 0.5:
            img += 20
        return img
""",
        data=FILES,
    ),
]
