"""The input of `predict`: arrays of so many samples, or something else."""

from __future__ import annotations

import numpy as np
import pytest

from trainperf.child.keras.calls import rows

ONE = np.zeros((1, 4))
MODEL = object()


@pytest.mark.parametrize(
    "given",
    [
        [[0.0, 1.0]],  # lists of numbers are left to Keras
        iter([ONE]),
        np.float32(1.0),
        np.zeros(()),
        [ONE, np.zeros((2, 4))],
        None,
    ],
)
def test_what_is_no_batch_of_arrays_has_no_samples(given: object) -> None:
    assert rows((MODEL, given), {}) is None


def test_a_batch_of_arrays_is_counted_by_its_first_dimension() -> None:
    assert rows((MODEL, np.zeros((3, 4))), {}) == 3
    assert rows((MODEL,), {"x": ONE}) == 1
    assert rows((MODEL, [ONE, np.zeros((1, 9))]), {}) == 1
    assert rows((MODEL, {"a": ONE}), {}) == 1
