"""A `PyDataset` that keeps its items gives the batches it gave before, and makes each once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixes.case_text import edited, evidence_of, repair, runs
from rewriting import executed, project_of, site_in
from trainperf.errors import CannotRewrite
from trainperf.fixes.findings import shown_findings
from trainperf.fixes.tf_data.pydataset import KerasPydatasetItems
from trainperf.model import Finding

ID = "keras_pydataset_items"
CASES = runs(ID)


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


@pytest.mark.parametrize(("source", "data"), CASES.values(), ids=CASES)
def test_batches_are_those_of_before_and_files_are_read_once(
    source: str, data: dict[str, Any], files: list[str]
) -> None:
    before = epochs(executed(source)["Rows"](list(files)))
    dataset = executed(edited(ID, source, data))["Rows"](list(files))
    first = epochs(dataset, 1)
    dataset.files = list(files)
    for path in files:
        Path(path).unlink()

    assert epochs(dataset) == before
    assert first == before[:2]


def test_two_datasets_of_a_class_keep_their_own(files: list[str]) -> None:
    source, data = CASES["written"]
    text = edited(ID, source.replace("np.load(\n", "self.load(\n"), data)
    cls = executed(text)["Rows"]
    one, other = cls(files), cls(files)
    other.scale = 5

    assert one[0].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert other[0].tolist() == [[0, 5, 10], [15, 20, 25]]


def test_a_setting_that_another_file_changes_keeps_nothing() -> None:
    text = CASES["expression"][0].replace("turned(np.sqrt(np.load(file)))", "self.load(file)")
    text = text.replace("np.load(file) * self.scale", "self.scale * np.load(file)")
    files = {"data.py": text, "train.py": "import data\n\n\ndef grow(rows):\n    rows.scale = 3\n"}
    with pytest.raises(CannotRewrite, match=r"rows.scale changes"):
        repair(ID, project_of(files), (site_in(files),), {"files": ["train.py"]})


READ = """\
import os
import keras


class Rows(keras.utils.PyDataset):
    ▸def __getitem__(self, index):◂
        return [parsed({}) for name in self.files]


def parsed(text, way=0):
    return sorted(text)
"""


def test_a_file_is_written_by_its_mode_not_by_its_name() -> None:
    text = READ.format("open(os.path.join('train', 'anns', name){}).read()")
    assert "made_item(self, name)" in edited(ID, text.format(""), {"files": []})
    with pytest.raises(CannotRewrite, match=r"open\(\) writes"):
        edited(ID, text.format(", 'a+'"), {"files": []})


def test_what_only_its_class_can_name_is_left_there() -> None:
    text = edited(ID, READ.format("open(name).read(), self.__way"), {"files": []})
    assert "parsed(made_item(self, name), self.__way)" in text


def test_nothing_is_kept_beside_worker_processes() -> None:
    fix = KerasPydatasetItems()
    waits = evidence_of("loop_pydataset")
    (found,) = shown_findings(waits, among=[fix])
    assert found.where == (waits.loop.pydataset_item,)
    threads = {"workers": 4}
    for data, clash in ((threads, False), ({**threads, "use_multiprocessing": True}, True)):
        other = Finding(**{**vars(found), "id": "keras_pydataset_workers", "data": data})
        assert bool(fix.clashes(found, other)) is clash
