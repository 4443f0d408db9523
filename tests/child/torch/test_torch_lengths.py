"""Where the length of an item's sequence stands is told from the batch it became."""

from __future__ import annotations

from typing import Any

import torch

from trainperf.child.torch.loader.padding import lengths_in_items

LENGTHS = [3, 9, 5, 12]
WORDS = [list(range(1, length + 1)) for length in LENGTHS]


def padded(rows: list[list[int]], steps: int = 12, pad: int = 0) -> Any:
    return torch.tensor([[*row, *[pad] * (steps - len(row))] for row in rows])


def test_items_of_a_length_of_their_own() -> None:
    items = [(f"review {at}", row, at % 2) for at, row in enumerate(WORDS)]
    assert lengths_in_items(items, (padded(WORDS), torch.zeros(4))) == {"at": 1, "how": "len"}
    named = [{"label": 1, "ids": torch.tensor(row)} for row in WORDS]
    assert lengths_in_items(named, {"ids": padded(WORDS)}) == {"at": "ids", "how": "len"}
    alone = [torch.tensor(row) for row in WORDS]
    assert lengths_in_items(alone, padded(WORDS)) == {"at": None, "how": "len"}


def test_marks_that_are_added_to_each_change_nothing() -> None:
    marked = [[99, *row, 98] for row in WORDS]
    assert lengths_in_items([(row, 0) for row in WORDS], padded(marked, 16)) == {
        "at": 0,
        "how": "len",
    }


def test_items_that_are_padded_already() -> None:
    rows = padded(WORDS, 20, pad=-1)
    items = [(row, 0) for row in rows]
    found = {"at": 0, "how": "given", "value": -1, "features": False}
    assert lengths_in_items(items, [rows, torch.zeros(4)]) == found
    clips = (rows >= 0).float().unsqueeze(-1).expand(-1, -1, 3)
    assert lengths_in_items(list(clips), clips) == {
        "at": None, "how": "given", "value": 0, "features": True
    }  # fmt: skip


def test_nothing_is_told_of_other_items() -> None:
    assert lengths_in_items([(1, 2)] * 4, padded(WORDS)) is None
    assert lengths_in_items([(row[:2], 0) for row in WORDS], padded(WORDS)) is None
    assert lengths_in_items([(row, 0) for row in WORDS], torch.rand(4, 3)) is None
    assert lengths_in_items([(WORDS[1], 0)] * 4, padded([WORDS[1]] * 4)) is None
    assert lengths_in_items([(row, 0) for row in WORDS], padded(WORDS[:3])) is None
