"""A `PyDataset` that keeps its items gives the batches it gave before, and makes each once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixes.case_text import evidence_of
from rewriting import changed, executed, project_of, script_of, site_in
from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.keras_pydataset_items import PyDatasetItems, keep_items
from trainperf.model import Finding

DATASET = """\
import random
import numpy as np


def turned(row):
    return row[::-1] if random.random() < 0.5 else row


class Rows:
    def __init__(self, files):
        self.files, self.scale = files, 2

    ▸def __getitem__(self, index):◂
        batch = self.files[index * 2 : index * 2 + 2]
{body}

    def load(self, file):
        return np.load(file) * self.scale

    def on_epoch_end(self):
        random.shuffle(self.files)
"""

METHOD = """\
        x = []
        for file in batch:
            row = self.load(file)
            if random.random() < 0.5:
                row += 100
            x.append(row)
        return np.stack(x)
"""
INLINE = """\
        x = np.empty((2, 3))
        for place, file in enumerate(batch):
            row = np.load(file)
            row = np.sqrt(row)
            x[place] = turned(row)
        return x
"""
EXPRESSION = """\
        return np.stack([turned(np.sqrt(np.load(file))) for file in batch])
"""
WRITTEN = """\
        x = np.empty((2, 3))
        for place, file in enumerate(batch):
            x[place] = np.load(
                file
            )
        return x
"""
TWO = """\
        x = [turned(np.load(file)) for file in batch]
        y = [turned(np.sqrt(np.load(file))) for file in batch]
        return np.stack([*x, *y])
"""


def edited(body: str, files: tuple[str, ...] = ()) -> str:
    script, sites = script_of(DATASET.replace("{body}", body.rstrip("\n")))
    keep_items(script, sites[0], files)
    return changed(script)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"{number}.npy") for number in range(4)]
    for number, path in enumerate(paths):
        np.save(path, np.arange(3.0) + 3 * number)
    return paths


def epochs(dataset: Any, count: int = 4) -> list[list[float]]:
    random.seed(3)
    found = []
    for _ in range(count):
        found += [dataset[index].tolist() for index in range(2)]
        dataset.on_epoch_end()
    return found


@pytest.mark.parametrize("body", [METHOD, INLINE, EXPRESSION, WRITTEN, TWO])
def test_batches_are_those_of_before_and_files_are_read_once(body: str, files: list[str]) -> None:
    before = epochs(executed(DATASET.replace("{body}", body))["Rows"](list(files)))
    dataset = executed(edited(body))["Rows"](list(files))
    first = epochs(dataset, 1)
    dataset.files = list(files)
    for path in files:
        Path(path).unlink()

    assert epochs(dataset) == before
    assert first == before[:2]


def test_two_datasets_of_a_class_keep_their_own(files: list[str]) -> None:
    cls = executed(edited(WRITTEN.replace("np.load(\n", "self.load(\n")))["Rows"]
    one, other = cls(files), cls(files)
    other.scale = 5

    assert one[0].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert other[0].tolist() == [[0, 5, 10], [15, 20, 25]]


def test_an_array_that_is_only_written_from_is_not_copied() -> None:
    assert "deepcopy" not in edited(WRITTEN)
    assert "deepcopy" in edited(METHOD)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("        return np.stack([turned(self.rows[file]) for file in batch])", "turned"),
        ("        return np.stack([np.save(file, batch) for file in batch])", "writes"),
        ("        return np.stack([self.log(np.load(f), self.n) for f in batch])", "self.log"),
        ("        self.n += 1\n        return np.stack([np.load(self.p % self.n)])", "self.n"),
    ],
)
def test_what_may_differ_is_left_alone(body: str, why: str) -> None:
    with pytest.raises(CannotRewrite, match=why):
        edited(body.replace("np.load(f)", "f"))


def test_a_setting_that_another_file_changes_keeps_nothing() -> None:
    text = DATASET.replace("{body}", "        return np.stack([self.load(f) for f in batch])")
    text = text.replace("np.load(file) * self.scale", "self.scale * np.load(file)")
    files = {"data.py": text, "train.py": "import data\n\n\ndef grow(rows):\n    rows.scale = 3\n"}
    with pytest.raises(CannotRewrite, match=r"rows.scale changes"):
        keep_items(project_of(files), site_in(files), ["train.py"])


def test_nothing_is_kept_beside_worker_processes() -> None:
    fix = PyDatasetItems()
    waits = evidence_of("loop_pydataset")
    found = fix.detect(waits)
    assert found is not None
    assert found.where == (waits.loop.pydataset_item,)
    threads = {"workers": 4}
    for data, clash in ((threads, False), ({**threads, "use_multiprocessing": True}, True)):
        other = Finding(**{**vars(found), "id": "keras_pydataset_workers", "data": data})
        assert bool(fix.clashes(found, other)) is clash
