"""Generators as people write them, and those whose items cannot be made apart."""

from __future__ import annotations

from rewriting import Example, unmarked
from trainperf.fixes.tf_data.edits.ahead import IN_PARALLEL

HELPER = IN_PARALLEL.format(futures="concurrent.futures", collections="collections")
CALL = "ds = ▸tf.data.Dataset.from_generator(samples, output_types=tf.float32)◂\n"
PLAIN = unmarked(CALL)


def _left(source: str) -> Example:
    text = f"import tensorflow as tf\n\n\n{source}\n\n{CALL}"
    return Example.untouched(text, {"calls": 4, "fits": False})


EXAMPLES = [
    Example(
        before=f"""\
import tensorflow as tf


def samples():
    order = np.random.permutation(len(paths))
    for index in order:
        image = load(paths[index])
        if image is None:
            continue
        yield image, labels[index]


{CALL}""",
        after=f"""\
import tensorflow as tf
import collections
import concurrent.futures


{HELPER}

def samples():
    order = np.random.permutation(len(paths))

    def make(index):
        image = load(paths[index])
        if image is None:
            return
        yield image, labels[index]

    yield from in_parallel(make, order, calls=4)


{PLAIN}""",
        data={"calls": 4},
    ),
    Example(  # batches, for ever, given to fit
        before="""\
import numpy as np


def batches(rows, size=32):
    while True:
        np.random.shuffle(rows)
        for start in range(0, len(rows), size):
            images, angles = [], []
            for path, angle in rows[start : start + size]:
                images.append(load(path))
                angles.append(angle)
            yield np.array(images), np.array(angles)


train = batches(rows)
▸model.fit(train, steps_per_epoch=20)◂
""",
        after=f"""\
import numpy as np
import collections
import concurrent.futures


{HELPER}

def batches(rows, size=32):
    while True:
        np.random.shuffle(rows)

        def make(start):
            images, angles = [], []
            for path, angle in rows[start : start + size]:
                images.append(load(path))
                angles.append(angle)
            yield np.array(images), np.array(angles)

        yield from in_parallel(make, range(0, len(rows), size), calls=2)


train = batches(rows)
model.fit(train, steps_per_epoch=20)
""",
        data={"calls": 2},
    ),
    Example(
        before="""\
import numpy as np
import tensorflow as tf

x, y = load()


def samples():
    for i in range(len(x)):
        yield x[i], y[i]


ds = ▸tf.data.Dataset.from_generator(
    samples, output_signature=(tf.TensorSpec((9,), tf.float32), tf.TensorSpec((), tf.int64))
)◂.batch(32)
""",
        after="""\
import numpy as np
import tensorflow as tf

x, y = load()


def samples():
    for i in range(len(x)):
        yield x[i], y[i]


ds = tf.data.Dataset.from_tensor_slices((np.asarray(x, np.float32), np.asarray(y, np.int64)))\
.batch(32)
""",
        data={"calls": 2, "fits": True},
    ),
    Example(  # collected into batches
        before=f"""\
import tensorflow as tf


def samples():
    images = []
    for path, _ in files:
        images.append(load(path))
        if len(images) == 32:
            yield images
            images = []


{CALL}""",
        after=f"""\
import tensorflow as tf
import collections
import concurrent.futures


{HELPER}

def samples():
    images = []

    def make(item):
        path, _ = item
        yield load(path)

    for made in in_parallel(make, files, calls=8):
        images.append(made)
        if len(images) == 32:
            yield images
            images = []


{PLAIN}""",
        data={"calls": 8},
    ),
    # too large for another copy
    _left("rows = load()\n\n\ndef samples():\n    for row in rows:\n        yield row\n"),
    # an item needs the one before
    _left(
        "def samples():\n    last = 0\n    for path in paths:\n"
        "        last = mixed(last, load(path))\n        yield last\n"
    ),
    # an open file, read on from
    _left(
        "def samples():\n    with open('data.bin', 'rb') as file:\n        for _ in range(100):\n"
        "            yield parse(file.read(784))\n"
    ),
    # it only hands out what is there
    _left("def samples():\n    for row in rows:\n        yield row\n"),
]
