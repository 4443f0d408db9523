"""A loader that is built once gives every epoch what it gave before."""

from __future__ import annotations

from typing import Any

import pytest

from fixes.case_text import edited_runs, repair
from rewriting import changed, executed, script_of

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


def edited(before: str, inside: str) -> tuple[str, str]:
    text = SCRIPT.replace("{before}", before).replace("{inside}", inside)
    script, sites = script_of(text)
    repair("torch_loader_rebuilt", script, sites, {"workers": 0})
    new = changed(script)
    return text.replace("▸", "").replace("◂", ""), new


def run(text: str) -> tuple[list[Any], list[int]]:
    names = executed(text)
    return names["seen"], names["built"]


@pytest.mark.parametrize(("before", "after"), edited_runs("torch_loader_rebuilt"))
def test_every_epoch_reads_the_same_from_one_loader(before: str, after: str) -> None:
    (old, _), (new, built) = run(before), run(after)

    assert new == old
    assert len(built) == 1


def test_a_model_that_is_called_in_the_loop_is_not_a_new_one() -> None:
    inside = "    loader = ▸DataLoader(data, 2)◂\n    for batch in loader:\n        model(batch)\n"
    _, new = edited("data = Rows(5)\nmodel = torch.numel\n", inside)
    assert len(run(new)[0]) == 9


def test_a_sampler_that_draws_later_may_move_along() -> None:
    _, new = edited(
        "data = Rows(5)\n", "    loader = ▸DataLoader(data, 2, sampler=RandomSampler(data))◂\n"
    )
    seen, _ = run(new)
    assert len({str(seen[at : at + 3]) for at in (0, 3, 6)}) > 1
