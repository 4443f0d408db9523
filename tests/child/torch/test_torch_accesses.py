"""The cost of items by the way in which they get at their data."""

from __future__ import annotations

import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

from trainperf.child.torch.loader import stages


class Clock:
    """Every look at it takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "time", Clock())


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a", "text")
    return path


def test_a_file_that_each_item_opens_is_timed_with_its_closing(archive: Path) -> None:
    found = stages.Accesses()
    with found.timed():
        for _ in range(4):
            with zipfile.ZipFile(archive) as file:
                assert file.read("a") == b"text"
    (one,) = found.of_items(4, 4.0, None)
    assert (one["name"], one["calls"], one["tables"]) == ("zipfile.ZipFile", 1.0, [])
    assert one["seconds"] >= 2.0  # opened and closed
    assert one["share"] == one["seconds"] / 4
    assert one["repeated"] == 0.75


def test_all_is_put_back_even_where_an_item_fails() -> None:
    before = zipfile.ZipFile.__init__
    found = stages.Accesses()
    with pytest.raises(FileNotFoundError), found.timed():
        zipfile.ZipFile("nowhere.zip")
    assert zipfile.ZipFile.__init__ is before
    assert isinstance(zipfile.ZipFile, type)


class Column:
    def __init__(self, table: Any, name: str) -> None:
        self.table, self.name = table, name

    def __getitem__(self, index: int) -> Any:
        return self.table[index][self.name]


class Dataset:
    def __getitem__(self, key: Any) -> Any:
        return Column(self, key) if isinstance(key, str) else {"a": key, "b": -key}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("datasets.arrow_dataset")
    module.Dataset, module.Column = Dataset, Column
    monkeypatch.setitem(sys.modules, "datasets.arrow_dataset", module)


class Reviews:
    def __init__(self) -> None:
        self.table = Dataset()
        self.texts = self.table["a"]
        self.number = 3


@pytest.mark.usefixtures("tables")
def test_elements_of_columns_are_timed_and_whose_they_are_is_told() -> None:
    held, found = Reviews(), stages.Accesses()
    with found.timed():
        assert (held.table["a"][1], held.table["b"][1], held.texts[1]) == (1, -1, 1)
    (one,) = found.of_items(1, 10.0, held)
    assert (one["name"], one["calls"], one["seconds"]) == ("column", 3.0, 5.0)
    assert (one["tables"], one["columns"]) == (["table"], ["texts"])
