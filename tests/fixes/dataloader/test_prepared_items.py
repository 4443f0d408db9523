"""Edited datasets give the items that they gave before, and make each of them once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fixes.case_text import evidence_of, repair
from rewriting import changed, executed, project_of, script_of, site_in
from trainperf.errors import CannotRewrite
from trainperf.fixes.dataloader.items import TorchItemWork

MEMORY = {"store": "memory", "whole": True, "copied": False, "files": []}
PART = {**MEMORY, "whole": False}

DATASET = """\
import random
import numpy as np

made = []


class Rows:
    def __init__(self, count):
        self.rows = list(range(count))
        self.scale = 2

    ▸def __getitem__(self, index):◂
{body}
"""

WHOLE = """\
        made.append(index)
        return np.full(3, self.rows[index] * self.scale)
"""

RANDOM = """\
        row = self.rows[index]
        values = self.load(row)
        if random.random() < 0.5:
            values += 100
        return values

    def load(self, row):
        return np.full(3, row * self.scale)
"""


def edited(body: str, data: dict[str, Any], source: str = DATASET) -> str:
    script, sites = script_of(source.replace("{body}", body.rstrip("\n")))
    repair("torch_item_work", script, sites, data)
    return changed(script)


def rows(text: str, count: int = 4) -> tuple[Any, list[int]]:
    names = executed(text)
    cls, made = names["Rows"], names["made"]
    if (load := getattr(cls, "load", None)) is not None:  # counted from outside
        cls.load = lambda self, row: (made.append(row), load(self, row))[1]
    return cls(count), made


def plain(body: str) -> str:
    return DATASET.replace("{body}", body).replace("▸", "").replace("◂", "")


def two_epochs(dataset: Any) -> list[list[float]]:
    random.seed(3)
    return [dataset[index].tolist() for _ in range(2) for index in range(4)]


@pytest.mark.parametrize("store", ["memory", "files"])
@pytest.mark.parametrize(("body", "data"), [(WHOLE, MEMORY), (RANDOM, PART)])
def test_items_are_those_of_before_and_made_once(
    body: str, data: dict[str, Any], store: str
) -> None:
    before, _ = rows(plain(body))
    after, made = rows(edited(body, {**data, "store": store}))

    assert two_epochs(after) == two_epochs(before)
    assert made == [0, 1, 2, 3]


def test_what_collates_may_write_into_its_items() -> None:
    dataset, made = rows(edited(WHOLE, {**MEMORY, "copied": True}))
    dataset[2][:] = 0

    assert dataset[2].tolist() == [4, 4, 4]
    assert made == [2]


def test_two_datasets_of_a_class_keep_their_own_items() -> None:
    text = edited(WHOLE, {**MEMORY, "store": "files"})
    names = executed(text)
    first, second = names["Rows"](2), names["Rows"](3)
    second.scale = 5

    assert (first[1].tolist(), second[1].tolist()) == ([2, 2, 2], [5, 5, 5])


FEATURES = """\
import numpy as np
from banks import bank

SCALE = 2.0


def features(signal):
    return np.log(np.stack([signal[i:] for i in range(3)]) @ bank(SCALE))
"""

ELSEWHERE = {
    "train.py": """\
import random
from features import features


class Sounds:
    def __init__(self, names):
        self.names = names

    ▸def __getitem__(self, index):◂
        values = features(open(self.names[index]).read())
        if random.random() < 0.5:
            values += 1
        return values
""",
    "features.py": FEATURES,
    "banks.py": "import numpy as np\n\n\ndef bank(scale):\n    return np.eye(3) * scale\n",
}


def test_functions_of_other_files_are_followed() -> None:
    script = project_of(ELSEWHERE)
    repair("torch_item_work", script, (site_in(ELSEWHERE),), PART)
    text = changed(script)
    assert "    values = features(open(self.names[index]).read())\n    return values\n" in text


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("banks.py", "import numpy as np\n\n\ndef bank(scale):\n    return np.random.rand(3)\n"),
        ("features.py", f"{FEATURES}\n\ndef louder():\n    global SCALE\n    SCALE = SCALE * 2\n"),
    ],
)
def test_functions_of_other_files_that_draw_or_read_what_changes_are_not(
    file: str, text: str
) -> None:
    files = ELSEWHERE | {file: text}
    with pytest.raises(CannotRewrite):
        repair("torch_item_work", project_of(files), (site_in(files),), PART)


LIBRARY = """\
import torch


class Library:
    def __init__(self):
        self.made = []

    def __len__(self):
        return 5

    def __getitem__(self, index):
        self.made.append(index)
        return torch.full((2,), index), index


digits = Library()
loader = ▸torch.utils.data.DataLoader({digits}, batch_size=2)◂
"""


@pytest.mark.parametrize("store", ["memory", "files"])
def test_a_librarys_dataset_is_put_into_one_that_keeps_its_items(store: str) -> None:
    text = edited("", {**MEMORY, "store": store, "wrapped": True}, LIBRARY.format(digits="digits"))
    names = executed(text)
    first, second = ([[x.tolist() for x in one] for one in names["loader"]] for _ in range(2))

    assert first == second
    assert first[1] == [[[2, 2], [3, 3]], [2, 3]]
    assert names["digits"].made == [0, 1, 2, 3, 4]


def kept(case: str) -> dict[str, Any]:
    cause = TorchItemWork().look(evidence_of(case))
    return {} if cause is None else cause.data


def test_items_are_kept_in_memory_where_they_fit_and_the_process_makes_them_itself() -> None:
    found = kept("torch_slow_transform")
    assert (found["store"], found["whole"], found["wrapped"]) == ("memory", True, False)
    assert kept("torch_slow_transform | machine.memory_available = 1e8")["store"] == "files"
    assert kept("seed_torch_waiting_items")["store"] == "files"


def test_what_random_items_begin_with_may_be_larger_than_they_are() -> None:
    tight = "torch_slow_transform | machine.memory_available = 5e8; facts.temporary_free = null"
    assert kept(tight)["store"] == "memory"
    assert not kept(f"{tight}; torch.loaders[0].repeats = false")


def test_items_of_a_librarys_dataset_are_looked_for_at_the_loader_and_in_its_transforms() -> None:
    own = TorchItemWork().look(evidence_of("torch_slow_transform | loop.epochs = 1"))
    evidence = evidence_of("torch_slow_transform | loop.epochs = 1; torch.loaders[0].item = null")
    given = TorchItemWork().look(evidence)
    assert own is not None
    assert given is not None
    assert "def __getitem__" in own.snippet
    assert given.where == (evidence.torch.loader.where,)
    assert "transforms" in given.advice
    assert "__getitem__" not in given.snippet
