"""Padded batches that are cut, and those of which it is not sure what `fit` does with them."""

from __future__ import annotations

from fixes.cases.tf_data.examples.buckets import HEAD, MODEL
from rewriting import Example
from trainperf.fixes.tf_data.edits.cutting import CUT, OF_ARRAYS

DATA = {"side": "end", "multiple": 16, "alone": True}
CUTTER = CUT.format(
    name="cut_batch",
    tf="tf",
    multiple=16,
    steps="tf.range(1, tf.shape(rows)[1] + 1)",
    cut=":length",
)
HELPER = OF_ARRAYS.format(name="cut_batches", tf="tf", cut="cut_batch")
CUTS = "map(cut_batch, num_parallel_calls=tf.data.AUTOTUNE)"
COMPILED = f"{MODEL}model.compile('adam', 'mse')\n"


def _left(source: str) -> Example:
    return Example.untouched(f"{HEAD}\n{source}", DATA)


EXAMPLES = [
    Example(
        before=f"{HEAD}\n{MODEL.format('250')}"
        "▸model.fit(padded, good, batch_size=16, epochs=3, validation_data=(x_val, y_val))◂\n",
        after=f"{HEAD}\n\n{CUTTER}\n\n{HELPER}\n\n{MODEL.format('None')}"
        "model.fit(cut_batches(padded, good, 16, True), epochs=3, "
        "validation_data=cut_batches(x_val, y_val, 16, False))\n",
        data=DATA,
    ),
    Example(
        before=f"{HEAD}\nds = ▸texts.padded_batch(32, padded_shapes=([200], []))◂\n",
        after=f"{HEAD}\nds = texts.padded_batch(32, padded_shapes=([None], []))\n",
        data=DATA,
    ),
    # padded in a generator, in a `map`, by `vectorize`: behind the last call that changes batches
    Example(
        before=f"{HEAD}\n{COMPILED.format('250')}"
        "ds = ▸padded.shuffle(500).batch(32)◂.prefetch(2)\n",
        after=f"{HEAD}\n\n{CUTTER}\n\n{COMPILED.format('None')}"
        f"ds = padded.shuffle(500).batch(32).{CUTS}.prefetch(2)\n",
        data=DATA,
    ),
    Example(
        before=f"{HEAD}\n{COMPILED.format('None')}"
        "ds = ▸texts.batch(32).map(lambda text, label: (vectorize(text), label))◂\n",
        after=f"{HEAD}\n\n{CUTTER}\n\n{COMPILED.format('None')}"
        "ds = texts.batch(32).map(lambda text, label: (vectorize(text), label))."
        f"{CUTS}\n",
        data=DATA,
    ),
    # another model that may read the padding: one more, one for each turn of a loop
    _left(f"{COMPILED.format('None')}pooled.compile('adam', 'mse')\nds = ▸padded.batch(32)◂\n"),
    _left("for model in models:\n    model.compile('adam', 'mse')\nds = ▸padded.batch(32)◂\n"),
    # labels of each step, or inputs of several names
    Example.untouched(
        f"{HEAD}\n{COMPILED.format('None')}ds = ▸padded.batch(32)◂\n",
        {"side": "end", "multiple": 16, "alone": False},
    ),
    # a dataset that a function of theirs, or of a library, makes in some way
    _left(f"{COMPILED.format('None')}ds = ▸dataset_of(texts)◂\n"),
    # the longest of the batch already; two sequences, of which one may be aligned to the other
    Example.untouched(f"{HEAD}\nds = ▸texts.padded_batch(32)◂\n", {**DATA, "alone": False}),
    _left("ds = ▸texts.padded_batch(32, padded_shapes=([200], [200]))◂\n"),
    # a part of the arrays is held back; an order of its own
    _left("▸model.fit(padded, good, validation_split=0.1)◂\n"),
    _left("▸model.fit(padded, good, shuffle=False)◂\n"),
    # arguments that are not seen
    _left("▸model.fit(padded, good, **how)◂\n"),
    # layers that need to know the length
    _left("model.add(keras.layers.Flatten())\n▸model.fit(padded, good)◂\n"),
]
