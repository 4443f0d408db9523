"""Windows of a time series gathered by the batch: the batches are those of Keras, bit for bit."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from fixes.case_text import edited
from rewriting import executed, unmarked

SOURCE = """\
import numpy as np
import tensorflow as tf
from tensorflow import keras

np.random.seed(3)
tf.random.set_seed(3)
ds = ▸keras.utils.timeseries_dataset_from_array({})◂
drawn = np.random.randint(1e6)
"""
ROWS = np.random.default_rng(1).normal(size=(61, 3))


def same(given: str, **names: Any) -> int:
    """Compare two epochs of a call as it is, and edited; return how many batches there were."""
    source = SOURCE.format(given)
    text = edited("tf_windows", source, {})
    assert f"ds = batches_of_windows({given})" in text
    names = {"rows": ROWS, "values": ROWS[:, 0], **names}
    before, after = (executed(each, names) for each in (unmarked(source), text))
    old, new = before["ds"], after["ds"]
    assert old.element_spec == new.element_spec
    assert int(old.cardinality()) == int(new.cardinality())
    assert before["drawn"] == after["drawn"], "it draws as many random numbers"
    epochs = [[_arrays(batch) for _ in range(2) for batch in each] for each in (old, new)]
    assert epochs[0] == epochs[1]
    return len(epochs[0])


def _arrays(batch: Any) -> list[Any]:
    arrays = [each.numpy() for each in (batch if isinstance(batch, tuple) else (batch,))]
    return [(each.dtype, each.shape, each.tolist()) for each in arrays]


GRID = list(
    itertools.product(
        ("None", "values", "rows[7:]", "values[:20]"),
        (1, 5),
        (1, 3),
        (1, 4),
        ("8", "64"),
        ("", ", start_index=4, end_index=50", ", end_index=40"),
        ("", ", shuffle=False", ", shuffle=True", ", shuffle=True, seed=11"),
    )
)


def test_the_batches_are_those_of_keras_whatever_the_call_gives() -> None:
    for targets, length, stride, rate, size, part, order in random.Random(5).sample(GRID, 20):
        if "[:20]" in targets and "start" in part:
            continue  # Keras goes past their end
        assert same(
            f"rows, {targets}, {length}, sequence_stride={stride}, sampling_rate={rate}, "
            f"batch_size={size}{part}{order}"
        )


@pytest.mark.parametrize(
    "given",
    [
        "rows, values, sequence_length=6, sampling_rate=2",
        "values.tolist(), list(range(61)), 9, 2, 3, 16",
        "rows.astype('float16'), tf.constant(values), np.int64(9), sampling_rate=np.int64(2)",
        "tf.constant(rows), rows.astype('int8'), 9, batch_size=16, shuffle=True",
        "np.array([b'a', b'bc'] * 20), None, 3",
    ],
)
def test_what_keras_takes_is_taken(given: str) -> None:
    assert same(given)


def test_no_window_is_no_batch() -> None:
    assert same("rows, None, 62") == 0
