"""Loops whose batches are made ahead: each step is given what it was given, or nothing changes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fixes.case_text import edited_runs
from rewriting import executed


def steps(source: str) -> tuple[list[Any], bool]:
    """The arguments of every step of a script, and whether its own thread made batches."""
    given: list[Any] = []
    random.seed(5)
    threads: set[str] = set()
    space: dict[str, Any] = {"note": threads.add, "n": 6, "data": list(range(60)), "said": given}
    space["step"] = lambda *batch: given.append(batch) or len(given)
    executed(source, space)
    return given, "MainThread" in threads


@pytest.mark.parametrize(("before", "after"), edited_runs("numpy_batching"))
def test_each_step_is_given_the_same_batch(before: str, after: str) -> None:
    given, in_main = steps(before)
    again, still = steps(after)

    assert given == again
    assert len(given) > 4
    assert in_main
    assert not still, "threads make the batches"
