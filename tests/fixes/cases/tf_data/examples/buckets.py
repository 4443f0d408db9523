"""Padded sequences, batched by length, and those of a length that something else fixes."""

from __future__ import annotations

from rewriting import Example
from trainperf.fixes.tf_data.edits.buckets import BY_LENGTH

DATA = {"boundaries": [9, 17, 41], "leaf": 0}
HEAD = "import tensorflow as tf\nfrom tensorflow import keras\n"
MODEL = """\
model = keras.Sequential(
    [keras.Input(({},)), keras.layers.Embedding(99, 8, mask_zero=True), keras.layers.LSTM(8)]
)
"""


def _left(source: str) -> Example:
    return Example.untouched(f"{HEAD}\n{source}", DATA)


EXAMPLES = [
    Example(
        before=f"{HEAD}\nds = ▸texts.map(encode).padded_batch(32, drop_remainder=True)◂\n",
        after=f"{HEAD}\nds = texts.map(encode).bucket_by_sequence_length("
        "lambda *element: tf.shape(tf.nest.flatten(element)[1])[0], [9, 17], [32] * 3, "
        "drop_remainder=True)\n",
        data={"boundaries": [9, 17], "leaf": 1},
    ),
    Example(
        before=f"{HEAD}\n{MODEL.format('longest')}"
        "▸model.fit(padded, good, batch_size=16, epochs=3)◂\n",
        after=f"{HEAD}\n\n{BY_LENGTH}\n\n{MODEL.format('None')}"
        "model.fit(by_length(padded, good, 16, [9, 17, 41]), epochs=3)\n",
        data=DATA,
    ),
    # a length that is given
    _left("ds = ▸texts.padded_batch(32, padded_shapes=([200], []))◂\n"),
    # a part of the arrays is held back
    _left("▸model.fit(padded, good, validation_split=0.1)◂\n"),
    # layers that need to know the length
    _left("model.add(keras.layers.Flatten())\n▸model.fit(padded, good)◂\n"),
]
