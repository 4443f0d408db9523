"""Tests of real timings may be tried again; each further try is counted and printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

RETRIED: Counter[str] = Counter()
"""Further tries by what they were of; `conftest.py` prints them at the end."""


def tries(of: str, most: int) -> Iterator[int]:
    """Give the numbers of up to `most` tries; the loop is left where one comes out right."""
    for attempt in range(most):
        if attempt:
            RETRIED[of] += 1
        yield attempt
