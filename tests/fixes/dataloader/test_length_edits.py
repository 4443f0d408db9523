"""A loader that batches by length still gives every sample once in each epoch."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any

import pytest

from fixes.case_text import repair
from rewriting import changed, executed, script_of
from trainperf.errors import CannotRewrite
from trainperf.model import ItemLength, PaddedPlace

torch = pytest.importorskip("torch")

SCRIPT = """\
import torch


def pad(samples):
    rows = torch.nn.utils.rnn.pad_sequence([row for row, _ in samples], batch_first=True)
    return rows, torch.tensor([number for _, number in samples])


loader = ▸torch.utils.data.DataLoader(data, {how})◂
"""

LENGTHS = random.Random(0).choices(range(8, 200), k=2003)
WORDS = [(torch.arange(1, length + 1), number) for number, length in enumerate(LENGTHS)]
OF_WORDS = {"length": asdict(ItemLength(0, "len")), "place": None}


def loader(how: str, data: list[Any], found: dict[str, Any]) -> Any:
    script, sites = script_of(SCRIPT.replace("{how}", how))
    repair("torch_length_batches", script, sites, found)
    text = changed(script)
    names = executed(text, {"data": data})
    return names["loader"]


def padded_steps(batches: list[Any]) -> float:
    """The padded length that a sample has on average."""
    return sum(rows.numel() for rows, _ in batches) / sum(len(rows) for rows, _ in batches)


@pytest.mark.parametrize(
    "how", ["batch_size=16, shuffle=True, collate_fn=pad", "16, True, collate_fn=pad"]
)
def test_an_epoch_is_one_pass_with_next_to_no_padding(how: str) -> None:
    made = loader(how, WORDS, OF_WORDS)
    batches = list(made)

    assert sorted(torch.cat([numbers for _, numbers in batches]).tolist()) == list(range(2003))
    assert len(batches) == len(made) == 126
    assert padded_steps(batches) < 1.1 * sum(LENGTHS) / len(LENGTHS)


def test_epochs_differ_and_long_batches_come_at_any_time() -> None:
    made = loader("batch_size=16, shuffle=True, collate_fn=pad", WORDS, OF_WORDS)
    first, second = ([rows.shape[1] for rows, _ in made] for _ in range(2))

    assert first != second
    assert first != sorted(first)


def test_the_last_samples_are_dropped_where_they_were() -> None:
    how = "batch_size=16, shuffle=True, drop_last=True, collate_fn=pad"
    batches = list(loader(how, WORDS, OF_WORDS))

    assert [len(rows) for rows, _ in batches] == [16] * 125


def test_items_that_are_padded_already_are_cut() -> None:
    rows = torch.nn.utils.rnn.pad_sequence([row for row, _ in WORDS], batch_first=True)
    found = {
        "length": asdict(ItemLength(0, "given")),
        "place": asdict(PaddedPlace("list", 0, (0,))),
    }
    batches = list(
        loader("batch_size=16, shuffle=True", list(zip(rows, LENGTHS, strict=True)), found)
    )

    assert padded_steps(batches) < 1.1 * sum(LENGTHS) / len(LENGTHS)


@pytest.mark.parametrize(
    "how",
    [
        "batch_size=16, sampler=by_weight, shuffle=True",
        "batch_sampler=own, shuffle=True",
        "shuffle=True, **how",
    ],
)
def test_loaders_with_an_order_of_their_own_are_left_alone(how: str) -> None:
    with pytest.raises(CannotRewrite):
        loader(how, WORDS, OF_WORDS)
