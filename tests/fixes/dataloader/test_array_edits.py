"""Collate functions that go through arrays give the batches that they gave before."""

from __future__ import annotations

import pytest

from fixes.case_text import edited_runs
from rewriting import executed

torch = pytest.importorskip("torch")
import numpy as np  # noqa: E402

ROWS = [([0.1, 2.0, 1e30], [1, 2, 3]), ([4.0, 5.5, 1 / 3], [2**40, 5, 6])]
ARRAYS = [(np.array(row), np.array(tags)) for row, tags in ROWS]
RAGGED = [([0.1, 2.0], [1]), ([1 / 3], [5, 6, 7]), ([], [])]


@pytest.mark.filterwarnings("ignore:Creating a tensor")
@pytest.mark.parametrize(("before", "after"), edited_runs("torch_python_collate"))
def test_the_batches_are_the_same(before: str, after: str) -> None:
    for samples in [RAGGED] if "enumerate(row)" in before else [ROWS, ARRAYS]:
        old, new = (executed(text)["collate"](samples) for text in (before, after))

        assert new.dtype == old.dtype
        assert bool((new == old).all())
