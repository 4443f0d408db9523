"""`.batch(n).shuffle(k)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.datasets import BATCHES, chain, is_dataset
from trainperf.source.module import Module
from trainperf.source.rule import Rule


class TfBatchBeforeShuffle(Rule):
    """`Dataset.shuffle` of whole batches, of samples that were not shuffled before."""

    words = (".shuffle(",)
    silent = (
        """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).shuffle(9).batch(3)
        """,
        """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).batch(3).unbatch().shuffle(9)
        """,
        """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9).shuffle(9).batch(3).shuffle(3)
        """,
        """
        import tensorflow as tf
        ds = tf.data.Dataset.list_files('*.png').map(load).batch(3).shuffle(9)
        """,
        """
        import tensorflow as tf
        ds = tf.data.Dataset.range(9)
        if training:
            ds = ds.shuffle(9)
        ds = ds.batch(3).shuffle(3)
        """,
    )
    fires = (
        """
        import tensorflow as tf
        ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(3).shuffle(9)
        """,
        """
        import tensorflow as tf
        def make():
            ds = tf.data.TFRecordDataset(files)
            ds = ds.map(parse)
            ds = ds.batch(32).cache()
            return ds.shuffle(1000)
        """,
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("shuffle"):
            if not is_dataset(module, call):
                continue
            stages = chain(module, call)
            names = stages.names()[:-1]
            batched = [number for number, name in enumerate(names) if name in BATCHES]
            if not stages.whole or not batched:
                continue
            mixed = {"shuffle", "list_files", "bucket_by_sequence_length"} & set(names)
            if not mixed and not {"unbatch", "flat_map", "window"} & set(names):
                yield (
                    call,
                    (
                        "shuffle after batch: whole batches are shuffled, so the same samples stay "
                        "together in every epoch and training may need more of them; the buffer "
                        "holds batches, and may take long to fill"
                    ),
                )
