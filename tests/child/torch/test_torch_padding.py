"""How long the sequences of a batch really are, by items and by the model."""

from __future__ import annotations

from typing import Any

import torch

from trainperf.child.torch.built.places import ModelCall
from trainperf.child.torch.loader import padding
from trainperf.child.torch.loader.padding import lengths_in_items, masks_padding


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


# Where the length of an item's sequence stands is told from the batch it became.


LENGTHS = [3, 9, 5, 12]
WORDS = [list(range(1, length + 1)) for length in LENGTHS]


def filled(rows: list[list[int]], steps: int = 12, pad: int = 0) -> Any:
    return torch.tensor([[*row, *[pad] * (steps - len(row))] for row in rows])


def test_items_of_a_length_of_their_own() -> None:
    items = [(f"review {at}", row, at % 2) for at, row in enumerate(WORDS)]
    assert lengths_in_items(items, (filled(WORDS), torch.zeros(4))) == {"at": 1, "how": "len"}
    named = [{"label": 1, "ids": torch.tensor(row)} for row in WORDS]
    assert lengths_in_items(named, {"ids": filled(WORDS)}) == {"at": "ids", "how": "len"}
    alone = [torch.tensor(row) for row in WORDS]
    assert lengths_in_items(alone, filled(WORDS)) == {"at": None, "how": "len"}


def test_items_that_are_padded_already() -> None:
    rows = filled(WORDS, 20, pad=-1)
    items = [(row, 0) for row in rows]
    found = {"at": 0, "how": "given", "value": -1, "features": False}
    assert lengths_in_items(items, [rows, torch.zeros(4)]) == found
    clips = (rows >= 0).float().unsqueeze(-1).expand(-1, -1, 3)
    assert lengths_in_items(list(clips), clips) == {
        "at": None, "how": "given", "value": 0, "features": True
    }  # fmt: skip


def test_nothing_is_told_of_other_items() -> None:
    assert lengths_in_items([(1, 2)] * 4, filled(WORDS)) is None
    assert lengths_in_items([(row[:2], 0) for row in WORDS], filled(WORDS)) is None
    assert lengths_in_items([(row, 0) for row in WORDS], torch.rand(4, 3)) is None
    assert lengths_in_items([(WORDS[1], 0)] * 4, filled([WORDS[1]] * 4)) is None
    assert lengths_in_items([(row, 0) for row in WORDS], filled(WORDS[:3])) is None


# A model is asked whether it gives the same without the padding of its batch.


ROWS = torch.zeros(8, 40, dtype=torch.long)
for row, length in enumerate([5, 7, 3, 14, 20, 2, 9, 31]):
    ROWS[row, :length] = torch.arange(1, length + 1)


class Reads(torch.nn.Module):
    """An embedding and a recurrent layer, whose last state goes through the padding."""

    def __init__(self, masks: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(50, 8)
        self.gru = torch.nn.GRU(8, 8, batch_first=True)
        self.drop = torch.nn.Dropout(0.5)
        self.masks = masks

    def forward(self, rows: Any) -> Any:
        states, last = self.gru(self.embed(rows))
        given = (rows != 0).unsqueeze(-1)
        return self.drop((states * given).sum(dim=1) if self.masks else last[-1])


def test_a_model_with_a_mask_gives_the_same() -> None:
    assert masks_padding([ModelCall(Reads(masks=True), (ROWS,), {})]) is True
    assert masks_padding([ModelCall(Reads(masks=True), (), {"rows": ROWS})]) is True


def test_a_model_that_reads_its_padding_gives_something_else() -> None:
    assert masks_padding([ModelCall(Reads(masks=False), (ROWS,), {})]) is False


def test_asking_leaves_the_model_and_the_random_stream_as_they_are() -> None:
    model = Reads(masks=True)
    model.drop.eval()
    modes = [one.training for one in model.modules()]
    state = torch.get_rng_state()
    masks_padding([ModelCall(model, (ROWS,), {})])

    assert [one.training for one in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(one.grad is None for one in model.parameters())
