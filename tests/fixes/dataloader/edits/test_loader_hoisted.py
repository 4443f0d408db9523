"""A loader that is built once gives every epoch what it gave before."""

from __future__ import annotations

from typing import Any

import pytest

from rewriting import changed, executed, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.dataloader.torch_loader_rebuilt import build_before_loop
from trainperf.model import Site

torch = pytest.importorskip("torch")

SCRIPT = """\
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

built, seen = [], []


class Rows(Dataset):
    def __init__(self, count):
        built.append(count)
        self.rows = list(range(count))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


{before}
for epoch in range(3):
{inside}
    for batch in loader:
        seen.append(batch.tolist())
"""


def edited(before: str, inside: str, workers: int = 0) -> tuple[str, str]:
    text = SCRIPT.replace("{before}", before).replace("{inside}", inside)
    script, sites = script_of(text)
    build_before_loop(script, sites[0], Site("train.py", 1), workers)
    new = changed(script)
    return text.replace("▸", "").replace("◂", ""), new


def run(text: str) -> tuple[list[Any], list[int]]:
    names = executed(text)
    return names["seen"], names["built"]


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("data = Rows(5)\n", "    loader = ▸DataLoader(data, 2)◂\n"),
        ("data = Rows(5)\n", "    loader = ▸DataLoader(\n        data,\n        2,\n    )◂\n"),
        ("size = 5\n", "    loader = ▸DataLoader(Rows(size), batch_size=2)◂\n"),
        (
            "def make(count):\n    data = Rows(count)\n    return ▸DataLoader(data, 2)◂\n",
            "    loader = make(5)\n",
        ),
    ],
)
def test_every_epoch_reads_the_same_from_one_loader(before: str, inside: str) -> None:
    old, new = (run(text) for text in edited(before, inside))

    assert new[0] == old[0]
    assert len(new[1]) == 1


def test_a_model_that_is_called_in_the_loop_is_not_a_new_one() -> None:
    inside = "    loader = ▸DataLoader(data, 2)◂\n    for batch in loader:\n        model(batch)\n"
    _, new = edited("data = Rows(5)\nmodel = torch.numel\n", inside)
    assert len(run(new)[0]) == 9


def test_a_model_for_each_turn_has_a_loader_of_its_own() -> None:
    inside = "    model = make_model()\n    loader = ▸DataLoader(data, 2)◂\n"
    with pytest.raises(CannotRewrite, match="model of its own"):
        edited("data = Rows(5)\n\n\ndef make_model():\n    return 1\n", inside)


def test_a_sampler_that_draws_later_may_move_along() -> None:
    _, new = edited(
        "data = Rows(5)\n", "    loader = ▸DataLoader(data, 2, sampler=RandomSampler(data))◂\n"
    )
    seen, _ = run(new)
    assert len({str(seen[at : at + 3]) for at in (0, 3, 6)}) > 1


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        # a random part, in the function that builds it
        (
            "def make():\n    return ▸DataLoader(torch.randperm(5), 2)◂\n",
            "    loader = make()\n",
        ),
        # a second loader of that name
        (
            "data = Rows(5)\n",
            "    loader = ▸DataLoader(data, 2)◂\n    loader = DataLoader(data, 3)\n",
        ),
        # a function that is called with something else each time
        (
            "def make(count):\n    return ▸DataLoader(Rows(count), 2)◂\n",
            "    loader = make(epoch + 1)\n",
        ),
        # into an object
        ("data = Rows(5)\n", "    data.loader = loader = ▸DataLoader(data, 2)◂\n"),
    ],
)
def test_a_loader_that_may_differ_is_left_alone(before: str, inside: str) -> None:
    with pytest.raises(CannotRewrite):
        edited(before, inside)


def test_workers_are_kept_where_there_are_any() -> None:
    _, new = edited("data = Rows(5)\n", "    loader = ▸DataLoader(data, 2, num_workers=1)◂\n", 1)
    assert "loader = DataLoader(data, 2, num_workers=1, persistent_workers=True)\nfor" in new
    _, new = edited("data = Rows(5)\n", "    loader = ▸DataLoader(data, 2)◂\n")
    assert "persistent_workers" not in new
