"""Padded batches that are cut, and those of which it is not sure what `fit` does with them."""

from __future__ import annotations

from trainperf.fixes import Example
from trainperf.fixes.tf_data.edits.cutting import CUT
from trainperf.fixes.tf_data.examples.buckets import HEAD, MODEL

DATA = {"side": "end", "multiple": 16}
HELPER = CUT.format(
    name="cut_batches",
    tf="tf",
    multiple=16,
    steps="tf.range(1, rows.shape[1] + 1)",
    cut=":length",
)


def _left(source: str) -> Example:
    return Example.untouched(f"{HEAD}\n{source}", DATA)


EXAMPLES = [
    Example(
        before=f"{HEAD}\n{MODEL.format('250')}"
        "▸model.fit(padded, good, batch_size=16, epochs=3, validation_data=(x_val, y_val))◂\n",
        after=f"{HEAD}\n\n{HELPER}\n\n{MODEL.format('None')}"
        "model.fit(cut_batches(padded, good, 16, True), epochs=3, "
        "validation_data=cut_batches(x_val, y_val, 16, False))\n",
        data=DATA,
    ),
    Example(
        before=f"{HEAD}\nds = ▸texts.padded_batch(32, padded_shapes=([200], []))◂\n",
        after=f"{HEAD}\nds = texts.padded_batch(32, padded_shapes=([None], []))\n",
        data=DATA,
    ),
    # the longest of the batch already; two sequences, of which one may be aligned to the other
    _left("ds = ▸texts.padded_batch(32)◂\n"),
    _left("ds = ▸texts.padded_batch(32, padded_shapes=([200], [200]))◂\n"),
    # a part of the arrays is held back; an order of its own
    _left("▸model.fit(padded, good, validation_split=0.1)◂\n"),
    _left("▸model.fit(padded, good, shuffle=False)◂\n"),
    # arguments that are not seen
    _left("▸model.fit(padded, good, **how)◂\n"),
    # layers that need to know the length
    _left("model.add(keras.layers.Flatten())\n▸model.fit(padded, good)◂\n"),
]
