"""How long the sequences of a batch really are."""

from __future__ import annotations

from typing import Any

import torch

from trainperf.child.torch.loader import padding


def recorded(*batches: Any) -> dict[str, Any] | None:
    return padding.padded(list(batches))


def tokens(*lengths: int, padded: int = 20, pad: int = 0) -> Any:
    rows = torch.full((len(lengths), padded), pad)
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = torch.arange(1, length + 1)
    return rows


def test_what_is_not_padded_sequences_is_left_alone() -> None:
    assert recorded((torch.rand(16, 3, 32, 32), torch.arange(16))) is None
    assert recorded((torch.rand(16, 20, 4), torch.arange(16))) is None
    assert recorded(torch.rand(16, 64)) is None
    assert recorded((torch.randint(0, 9, (16, 2)),)) is None
    assert recorded() is None


def test_where_the_sequences_are_is_recorded_with_what_goes_along_with_them() -> None:
    rows = tokens(5, 7, 3, 4, 10, 2, 9, 1, pad=-1)
    found = recorded([torch.zeros(8), rows, torch.zeros(8, 20, 3), torch.zeros(8, 5)])
    assert found is not None
    assert found["place"] == {
        "kind": "list", "at": 1, "along": [1, 2], "value": -1, "features": False
    }  # fmt: skip
    named = recorded({"ids": rows, "mask": (rows >= 0).long(), "label": torch.zeros(8)})
    assert named is not None
    assert named["place"]["kind"] == "dict"
    assert named["place"]["along"] == ["ids", "mask"]


def test_sequences_with_their_time_first_are_not_taken_for_others() -> None:
    rows = tokens(5, 7, 3, 4, 10, 2, 9, 1, padded=12)
    assert padding.padded([rows.T], size=8) is None
    assert padding.padded([rows], size=8) is not None
