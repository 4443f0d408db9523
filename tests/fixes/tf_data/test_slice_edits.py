"""Generators of rows: the dataset of the arrays that takes their place, and what is left."""

from __future__ import annotations

import pytest

from rewriting import result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.generators import make_items_in_parallel

HEAD = "import numpy as np\nimport tensorflow as tf\n\nx, y = load()\n\n\n"
CALL = "ds = ▸tf.data.Dataset.from_generator({})◂\n"
TYPES = "samples, output_types=(tf.float32, tf.int64)"


def edited(generator: str, given: str = TYPES) -> str:
    script, (site, *_) = script_of(f"{HEAD}{generator}\n\n{CALL.format(given)}")
    make_items_in_parallel(script, site, {"calls": 2, "fits": True})
    return (result(script) or "").splitlines()[-1]


BOTH = (
    "ds = tf.data.Dataset.from_tensor_slices((np.asarray(x, np.float32), np.asarray(y, np.int64)))"
)


@pytest.mark.parametrize(
    "generator",
    [
        "def samples():\n    for i in range(len(x)):\n        yield x[i], y[i]\n",
        "def samples():\n    '''All.'''\n    for a, b in zip(x, y):\n        yield (a, b)\n",
    ],
)
def test_rows_of_arrays_are_slices_of_them(generator: str) -> None:
    assert edited(generator) == BOTH


def test_types_may_stand_in_a_signature_that_has_a_name() -> None:
    generator = "def samples():\n    for a in x:\n        yield a\n"
    signature = "\n\nspec = tf.TensorSpec((3,), dtype='float16')\n"

    text = edited(generator + signature, "lambda: samples(), output_signature=spec")

    assert text == "ds = tf.data.Dataset.from_tensor_slices(np.asarray(x, np.float16))"


INNER = """\
def make(x):
    def samples():
        for a in x:
            yield a
    return samples
"""
MIXED = """\
def mix():
    np.random.shuffle(x)


def samples():
    for a in x:
        yield a
"""


@pytest.mark.parametrize(
    ("generator", "given"),
    [
        ("def samples():\n    for i in range(9):\n        yield x[i], y[i]\n", TYPES),
        ("def samples():\n    for i in range(len(x)):\n        yield x[i], y[i + 1]\n", TYPES),
        ("def samples():\n    for i in order:\n        yield x[i], y[i]\n", TYPES),
        ("def samples():\n    while True:\n        for a in x:\n            yield a\n", TYPES),
        ("def samples(x):\n    for a in x:\n        yield a\n", TYPES + ", args=(y,)"),
        (INNER, "make(y), output_types=tf.float32"),
        ("def samples():\n    for a in x:\n        yield a\n", "samples, tf.complex64"),
        ("def samples():\n    for a in x:\n        yield a\n", "samples, output_types=tf.string"),
        ("def samples():\n    for a in x:\n        yield a\n", "samples, output_types=types"),
        # mixed anew in each epoch, gone through once, of different lengths
        (MIXED, "samples, output_types=tf.float32"),
        ("z = open(path)\n\n\ndef samples():\n    for a in z:\n        yield a\n",
         "samples, output_types=tf.float32"),
        # pictures that are turned anew whenever they are asked for
        ("z = Photos(turned=True)\n\n\ndef samples():\n    for a in z:\n        yield a\n",
         "samples, output_types=tf.float32"),
        ("z = turn.flow(y)\n\n\ndef samples():\n    for i in range(len(z)):\n        yield z[i]\n",
         "samples, output_types=tf.float32"),
        ("def samples():\n    for a in x:\n        yield a\n",
         "samples, output_signature=tf.TensorSpec((None,), tf.int32)"),
    ],
)  # fmt: skip
def test_what_is_more_than_rows_is_left_alone(generator: str, given: str) -> None:
    with pytest.raises(CannotRewrite):
        edited(generator, given)
