"""Functions that do the same to a batch as to each sample, and those that may not."""

from __future__ import annotations

import ast

import pytest

from trainperf.fixes.tf_data.tf_vectorised_map import elementwise
from trainperf.source.bodies import function_of
from trainperf.source.module import Module

HEAD = "import numpy as np\nimport tensorflow as tf\nfrom tensorflow import keras\n\nN = 10\n"


def moves(function: str) -> bool:
    """Whether the last function of a source, or its lambda `f = …`, may be given batches."""
    source = HEAD + function
    module = Module(ast.parse(source), source)
    last = module.top.node.body[-1]  # type: ignore[attr-defined]
    found = function_of(module, last.value) if isinstance(last, ast.Assign) else last
    return elementwise(module, found)


BY_ITSELF = [
    "f = lambda x: x / 255",
    "f = lambda x, y: (tf.cast(x, tf.float32) / 255.0, y)",
    "f = lambda x, y: (x, tf.one_hot(y, N))",
    "f = lambda x: (x - [0.5, 0.4, 0.3]) / np.array([0.2, 0.2, 0.2])",
    "f = lambda d: {'image': d['image'] * 2, 'label': d['label']}",
    "def f(x, y):\n    '''Scale.'''\n    x = tf.expand_dims(tf.abs(x), -1)\n    return x, y\n",
    "f = lambda x: tf.image.convert_image_dtype(x, tf.float32)",
    "def g(x):\n    return x / 2\n\n\ndef f(x, y):\n    return g(x), y\n",
    "f = lambda x: keras.applications.mobilenet_v2.preprocess_input(x)",
]
OTHERWISE = [
    "f = lambda x: x[0]",
    "f = lambda x: x[..., 0]",
    "f = lambda x: tf.reduce_mean(x)",
    "f = lambda x: x - tf.reduce_mean(x)",
    "f = lambda x, y: x * y",
    "f = lambda x: tf.reshape(x, [28, 28, 1])",
    "f = lambda x: tf.expand_dims(x, 0)",
    "f = lambda x: tf.image.random_flip_left_right(x)",
    "f = lambda x: tf.image.resize(x, [32, 32])",
    "f = lambda x: x @ weights",
    "f = lambda x: x / scale",
    "f = lambda *x: x",
    "f = lambda y: tf.one_hot(y, N, axis=0)",
    "f = lambda x: unknown(x)",
    "def f(x):\n    if x.shape[0] > 3:\n        x = x / 2\n    return x\n",
    "def f(x):\n    x, y = x\n    return x\n",
    "f = lambda x: tf.random.normal([3]) + x",
]


@pytest.mark.parametrize("function", BY_ITSELF)
def test_what_treats_each_number_by_itself_may_be_given_batches(function: str) -> None:
    assert moves(function)


@pytest.mark.parametrize("function", OTHERWISE)
def test_what_sees_axes_or_other_samples_may_not(function: str) -> None:
    assert not moves(function)
