"""Maps that work and draw random numbers, and generators: cached, or left alone."""

from __future__ import annotations

from rewriting import Example, unmarked

HEAD = "import tensorflow as tf\n\n\n"
LOAD = """\
def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (96, 96))
"""
DRAW = """\
    # another one in each epoch
    image = tf.image.random_flip_left_right(image)
    return image, label
"""


def _split(source: str) -> dict[str, int]:
    """Where the function draws, as a run sees it: the line below the comment."""
    ahead, _, _ = (HEAD + source).partition("    image = tf.image.random_")
    return {"split": ahead.count("\n") + 1}


def _left(source: str) -> Example:
    return Example.untouched(HEAD + source, _split(source))


SPLIT = [
    Example(
        before=f"{HEAD}{LOAD}{DRAW}\n\n"
        "ds = ▸files.map(load, num_parallel_calls=tf.data.AUTOTUNE)◂.batch(32)\n",
        after=f"{HEAD}{LOAD}    return image, label\n\n\n"
        f"def load_random(image, label):\n{DRAW}\n\n"
        "ds = files.map(load, num_parallel_calls=tf.data.AUTOTUNE).cache()"
        ".map(load_random, num_parallel_calls=tf.data.AUTOTUNE).batch(32)\n",
        data=_split(LOAD + DRAW),
    ),
    # what it works on where the source draws was not measured: it was seen to draw elsewhere
    Example.untouched(f"{HEAD}{LOAD}{DRAW}\n\nds = ▸files.map(load)◂.batch(32)\n", {"split": 5}),
    # other datasets are made with it
    _left(f"{LOAD}{DRAW}\n\nds = ▸files.map(load)◂.batch(32)\nother = more.map(load)\n"),
    # it draws which file to read
    _left(
        "def load(_):\n    number = tf.random.uniform((), 0, 9, tf.int32)\n"
        "    return tf.io.read_file(paths[number])\n\n\nds = ▸numbers.map(load)◂\n"
    ),
]

LOOP = """\
def samples():
    for index in {}:
        image = np.load(paths[index])
        yield image / 255, labels[index]


"""
FROM = "ds = ▸tf.data.Dataset.from_generator(samples, output_signature=signature)◂{}.shuffle(99)\n"


def _generator(order: str, cache: str) -> Example:
    head = f"import numpy as np\n{HEAD}{LOOP.format(order)}"
    after = unmarked(FROM.format(cache))
    return Example(before=head + FROM.format(""), after=head + after, data={"generator": []})


GENERATORS = [
    _generator("range(len(paths))", ".cache()"),
    # another order in each epoch, which a cache would freeze
    _generator("np.random.permutation(len(paths))", ""),
]
