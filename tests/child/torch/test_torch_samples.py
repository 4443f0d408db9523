"""Which dimension of a batch has its samples, and how many tokens are real."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from trainperf.child.torch.loader import padding


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
