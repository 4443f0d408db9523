"""The cases of `tf_vectorised_map`."""

from __future__ import annotations

from fixes.cases.common.cases import OTHER_SITE, stage
from fixes.cases.tf_data._input_cases import fed, starved
from rewriting import Example
from trainperf.model import Function

NORMALISE = Function("normalise", "train.py", 9)

_MANY = {"function": NORMALISE, "elements_per_step": 512.0, "ops": ("Cast", "RealDiv")}

silent = [
    fed(stage("map", 0.02, **_MANY), stage("batch", 0.06)),
    # not cheap
    starved(stage("map", 0.09, **{**_MANY, "elements_per_step": 32.0}), stage("batch", 0.01)),
    # few calls
    starved(
        stage("map", 0.0004, **{**_MANY, "elements_per_step": 8.0}),
        stage("batch", 0.0001),
        real=0.001,
        resident=0.0002,
    ),
    # batched already
    starved(stage("batch", 0.09), stage("map", 0.01, **_MANY)),
    # work on single files, random draws, Python
    starved(stage("map", 0.02, **{**_MANY, "ops": ("DecodeJpeg", "Cast")}), stage("batch", 0.07)),
    starved(stage("map", 0.02, stateful_random=True, **_MANY), stage("batch", 0.07)),
    starved(stage("map", 0.02, python=True, **_MANY), stage("batch", 0.07)),
    # something else stands between
    starved(stage("map", 0.02, **_MANY), stage("cache", 0.02), stage("batch", 0.05)),
    # what it does is not known
    starved(stage("map", 0.02, **{**_MANY, "ops": ()}), stage("batch", 0.07)),
]

fires = [
    starved(stage("map", 0.02, **_MANY), stage("batch", 0.07)),
    starved(stage("map", 0.02, **_MANY), stage("prefetch", 0.0), stage("padded_batch", 0.07)),
    starved(
        stage("map", 0.02, **_MANY),
        stage("shuffle", 0.0),
        stage("batch", 0.07, where=OTHER_SITE),
    ),
]

tries_not = [
    # no input could matter
    starved(stage("map", None, **_MANY), stage("batch", None, where=OTHER_SITE), resident=0.1),
    # batched already, or something between that keeps what it did
    starved(stage("batch", None), stage("map", None, **_MANY)),
    starved(stage("map", None, **_MANY), stage("cache", None), stage("batch", None)),
    # not cheap
    starved(
        stage("map", 0.09, **{**_MANY, "elements_per_step": 32.0}),
        stage("batch", 0.01, where=OTHER_SITE),
    ),
    # its padding would be scaled as well
    starved(stage("map", None, **_MANY), stage("padded_batch", None, where=OTHER_SITE)),
]

tries = [
    starved(stage("map", None, **_MANY), stage("batch", None, where=OTHER_SITE)),
    starved(stage("map", 0.02, **_MANY), stage("batch", 0.07, where=OTHER_SITE), resident=None),
]

examples = [
    Example(
        before="import tensorflow as tf\n\n\ndef scale(x, y):\n"
        "    x = tf.cast(x, tf.float32) / 255.0\n    return x[..., tf.newaxis], y\n\n\n"
        "ds = ▸▸ds.map(scale, num_parallel_calls=4)◂.shuffle(99).batch(32)◂.prefetch(1)\n",
        after="import tensorflow as tf\n\n\ndef scale(x, y):\n"
        "    x = tf.cast(x, tf.float32) / 255.0\n    return x[..., tf.newaxis], y\n\n\n"
        "ds = ds.shuffle(99).batch(32).map(scale, num_parallel_calls=4).prefetch(1)\n",
    ),
    Example(
        before="ds = ▸ds.map(lambda x, y: (2 * x - 1, y))◂\nds = ▸ds.batch(8)◂.prefetch(1)\n",
        after="ds = ds.batch(8).map(lambda x, y: (2 * x - 1, y)).prefetch(1)\n",
    ),
    Example.untouched("ds = ▸▸ds.map(lambda x: x[0] / 2)◂.batch(8)◂\n"),
    Example.untouched("ds = ▸▸ds.map(lambda x, y: x * y)◂.batch(8)◂\n"),
    Example.untouched("a = ▸ds.map(lambda x: x / 2)◂\nb = ▸a.batch(8)◂\n"),
]
