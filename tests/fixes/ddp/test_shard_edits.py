"""Ranks of an edited script read a part of the data each, in another order in each epoch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fixes.case_text import edited
from rewriting import executed

torch = pytest.importorskip("torch")

SCRIPT = """\
import torch
from torch.utils.data import DataLoader

seen = []
for epoch in range(2):
    loader = ▸DataLoader(data, 2{shuffle})◂
    for batch in loader:
        seen.append(batch.tolist())
"""


def of_rank(rank: int, shuffle: str, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """What a rank of two reads in two epochs of the edited script."""
    text = edited("torch_unsharded_data", SCRIPT.replace("{shuffle}", shuffle), {})
    job = SimpleNamespace(
        is_available=lambda: True, get_world_size=lambda: 2, get_rank=lambda: rank
    )
    monkeypatch.setattr(torch.utils.data.distributed, "dist", job)
    names = executed(text, {"data": list(range(8))})
    batches = names["seen"]
    return [[*batches[0], *batches[1]], [*batches[2], *batches[3]]]


@pytest.mark.parametrize("shuffle", [", shuffle=True", ", True", "", ", shuffle=False"])
def test_each_epoch_is_one_pass_over_the_data(
    shuffle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (of_rank(rank, shuffle, monkeypatch) for rank in (0, 1))

    for one, other in zip(first, second, strict=True):
        assert sorted(one + other) == list(range(8))


def test_what_was_shuffled_has_another_order_in_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled = of_rank(0, ", shuffle=True", monkeypatch)
    plain = of_rank(0, "", monkeypatch)

    assert shuffled[0] != shuffled[1]
    assert plain[0] == plain[1]
