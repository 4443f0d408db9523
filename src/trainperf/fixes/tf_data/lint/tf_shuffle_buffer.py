"""Shuffle buffers that hold decoded samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of, reading
from trainperf.source.datasets import BATCHES, chain, is_dataset
from trainperf.source.module import Module
from trainperf.source.rule import Rule

MANY = 500
"""Samples in a buffer: of images of 224 × 224 in float32 they take 300 MB."""


class TfShuffleBuffer(Rule):
    """`Dataset.shuffle` of 500 samples or more after a `map` that reads files."""

    words = (".shuffle(",)
    silent = (
        """
        import tensorflow as tf
        def load(p):
            return tf.io.decode_jpeg(tf.io.read_file(p))
        ds = tf.data.Dataset.list_files('*').shuffle(1000).map(load)
        """,
        """
        import tensorflow as tf
        def load(p):
            return tf.io.decode_jpeg(tf.io.read_file(p))
        ds = tf.data.Dataset.list_files('*').map(load).cache().shuffle(1000)
        """,
        """
        import tensorflow as tf
        def load(p):
            return tf.io.decode_jpeg(tf.io.read_file(p))
        ds = tf.data.Dataset.list_files('*').map(load).shuffle(16)
        """,
    )
    fires = (
        """
        import tensorflow as tf
        def load(p):
            return tf.io.decode_jpeg(tf.io.read_file(p))
        ds = tf.data.Dataset.list_files('*').map(load).shuffle(1000)
        """,
        """
        import tensorflow as tf
        BUFFER = 5000
        def load(p, y):
            return tf.image.decode_image(tf.io.read_file(p)), y
        ds = tf.data.Dataset.from_tensor_slices((paths, labels))
        ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.repeat().shuffle(buffer_size=BUFFER)
        """,
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("shuffle"):
            size = module.constant(argument(call, "buffer_size", 0))
            if not isinstance(size, int) or size < MANY or not is_dataset(module, call):
                continue
            stages = chain(module, call)
            ahead = stages.stages[:-1]
            names = stages.names()[:-1]
            if {"cache", "snapshot"} & set(names) or BATCHES & set(names):
                continue
            maps = [each for each, name in zip(ahead, names, strict=True) if name == "map"]
            functions = [function_of(module, each.args[0]) for each in maps if each.args]
            if any(each is not None and reading(module, each) for each in functions):
                yield (
                    call,
                    (
                        f"shuffle({size}) after a map that reads or decodes files: {size} decoded "
                        "samples are made and held before the first batch of every epoch, which "
                        "may take long; shuffle file names instead, ahead of the map"
                    ),
                )
