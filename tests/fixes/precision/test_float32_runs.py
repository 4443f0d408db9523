"""Trainings in float64 that were made float32 run, and lose what they lost to seven digits."""

from __future__ import annotations

from typing import Any

import pytest

from fixes.case_text import edited_runs
from rewriting import executed

torch = pytest.importorskip("torch")


def trained(text: str) -> tuple[list[float], Any]:
    """The losses of a script, and the type of its weights."""
    try:
        space = executed(text)
    finally:
        torch.set_default_dtype(torch.float32)
    return space["losses"], next(space["model"].parameters()).dtype


@pytest.mark.parametrize(("before", "after"), edited_runs("torch_float64"))
def test_it_trains_in_float32(before: str, after: str) -> None:
    (losses, was), (made, new) = trained(before), trained(after)

    assert (was, new) == (torch.float64, torch.float32)
    assert made != losses
    if "set_default_dtype" not in before:  # which makes the first weights others
        assert made == pytest.approx(losses, rel=1e-4)
