"""How long the sequences of a batch really are, by items and by the model."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from trainperf.child.torch.built.places import ModelCall
from trainperf.child.torch.loader import padding
from trainperf.child.torch.loader.padding import lengths_in_items


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
        states, last = self.gru(self.embed(rows.view(-1)).view(*rows.shape, 8))
        given = (rows != 0).unsqueeze(-1)
        return self.drop((states * given).sum(dim=1) if self.masks else last[-1])


class Walks(torch.nn.Module):
    """It takes a millisecond for each step up to the padding, or to the longest sequence."""

    def __init__(self, padding: bool) -> None:
        super().__init__()
        self.padding = padding

    def forward(self, images: Any, rows: Any) -> Any:
        steps = rows.shape[1] if self.padding else int((rows != 0).sum(dim=1).max())
        time.sleep(steps / 1000)
        return images.mean() + rows.sum(dim=1)


class Looks(torch.nn.Module):
    """It has no sequences, and more weights than what it is before."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.head = torch.nn.Linear(64, 8)
        self.seconds = seconds

    def forward(self, images: Any) -> Any:
        time.sleep(self.seconds)
        return self.head(images)


def asked(*calls: tuple[torch.nn.Module, tuple[Any, ...]], **named: Any) -> dict[str, Any]:
    made = [ModelCall(model, given, named) for model, given in calls]
    return padding.without_padding(SimpleNamespace(sync=lambda: None), made)


def test_a_model_with_a_mask_gives_the_same() -> None:
    assert asked((Reads(masks=True), (ROWS,)))["masked"] is True
    assert asked((Reads(masks=True), ()), rows=ROWS)["masked"] is True


def test_a_model_that_reads_its_padding_gives_something_else() -> None:
    assert asked((Reads(masks=False), (ROWS,)))["masked"] is False


def test_how_much_of_the_time_goes_with_the_padding_is_of_all_models() -> None:
    images = torch.rand(8, 64)
    assert asked((Walks(padding=True), (images, ROWS)))["follows"] > 0.6
    stops = asked((Looks(0.0), (images,)), (Walks(padding=False), (images, ROWS)))
    assert stops["masked"] is True
    assert stops["follows"] < 0.4
    beside = asked((Looks(0.2), (images,)), (Walks(padding=True), (images, ROWS)))
    assert beside["follows"] < 0.4


def test_what_is_timed_is_what_training_takes_in_each_step() -> None:
    shapes = set[Any]()

    class Compiles(Walks):
        def forward(self, images: Any, rows: Any) -> Any:
            assert not torch.backends.mha.get_fastpath_enabled()  # leaves out what is masked
            time.sleep(0.0 if rows.shape in shapes else 0.3)
            shapes.add(rows.shape)
            return super().forward(images, rows)

    assert asked((Compiles(padding=True), (torch.rand(8, 64), ROWS)))["follows"] > 0.6
    assert torch.backends.mha.get_fastpath_enabled()


def test_rows_stay_in_the_order_that_packed_sequences_want() -> None:
    class Packs(torch.nn.Module):
        def forward(self, rows: Any, lengths: Any) -> Any:
            features = torch.nn.functional.one_hot(rows, 50).float()
            return nn.utils.rnn.pack_padded_sequence(features, lengths, batch_first=True).data

    lengths = torch.tensor([31, 20, 14, 9, 7, 5, 3, 2])
    assert asked((Packs(), (tokens(*lengths, padded=40), lengths)))["masked"] is True


def test_no_model_is_run_that_takes_no_padded_sequences() -> None:
    assert asked((Looks(9.0), (torch.rand(8, 64),))) == {}
    assert asked((Reads(masks=True), (torch.arange(320).reshape(8, 40) % 50,))) == {}


def test_asking_leaves_the_model_and_the_random_stream_as_they_are() -> None:
    model = Reads(masks=True)
    model.drop.eval()
    modes = [one.training for one in model.modules()]
    state = torch.get_rng_state()
    assert asked((model, (ROWS,)))

    assert [one.training for one in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(one.grad is None for one in model.parameters())


# Which dimension of a batch has its samples, and how many tokens are real.


class Reader(nn.Module):
    """Embeds tokens and works through them."""

    def __init__(self, layer: Any, index: int | None = None) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8, padding_idx=index)
        self.layer = layer


def ids(rows: int, steps: int) -> Any:
    return torch.randint(1, 50, (rows, steps))


def counted(*batches: Any, model: Any = None) -> dict[str, float]:
    return padding.tokens(list(batches), [model or Reader(nn.LSTM(8, 4))])


@pytest.mark.parametrize(
    ("batch", "model"),
    [
        ((torch.rand(8, 20), torch.zeros(8)), None),  # features
        ((ids(4, 3), torch.zeros(4)), None),  # too few to be a sequence
        ((ids(8, 1)[:, 0], torch.ones(8, dtype=torch.int64)), None),  # one item for each
        ((torch.full((8, 20), 99), torch.zeros(8)), None),  # no table has such a row
        ((ids(8, 20), torch.zeros(8)), nn.Linear(20, 2)),  # no table at all
        # columns of categories, each looked up in the table
        ((ids(8, 20), torch.zeros(8)), nn.Sequential(nn.Embedding(50, 4), nn.Linear(4, 1))),
    ],
)
def test_what_is_no_sequence_of_tokens_has_none(batch: Any, model: Any) -> None:
    assert counted(batch, model=model) == {}


MASK = torch.arange(20).repeat(8, 1) < 5
KINDS = torch.zeros(8, 20, dtype=torch.int64)


@pytest.mark.parametrize(
    "batch",
    [
        {"labels": torch.zeros(8), "input_ids": ids(8, 20), "attention_mask": MASK.long()},
        {"input_ids": ids(8, 20), "token_type_ids": KINDS, "attention_mask": MASK.flip(1)},
        [ids(8, 20), MASK.long(), torch.zeros(8)],
        {"ids": ids(8, 20), "mask": MASK},
    ],
)
def test_a_mask_tells_the_real_tokens(batch: Any) -> None:
    assert counted(batch) == {"tokens": 160, "real_tokens": 40}


def test_the_index_that_the_model_pads_with_tells_the_real_tokens() -> None:
    padded = ids(8, 20) * MASK
    assert counted([padded], model=Reader(nn.LSTM(8, 4), index=0))["real_tokens"] == 40
    model = Reader(nn.LSTM(8, 4))
    model.config = SimpleNamespace(pad_token_id=0)
    assert counted([padded], [ids(8, 10)], model=model) == {"tokens": 120, "real_tokens": 60}
