"""The cost of items by the way in which they get at their data."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kit.child import FakeProcess
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
    with stages.timed_accesses(FakeProcess()) as found:
        for _ in range(4):
            with zipfile.ZipFile(archive) as file:
                assert file.read("a") == b"text"
    (one,) = stages.accesses_of_items(found, 4, 4.0)
    assert (one["name"], one["calls"]) == ("zipfile.ZipFile", 1.0)
    assert one["seconds"] >= 2.0  # opened and closed
    assert one["share"] == one["seconds"] / 4
    assert one["repeated"] == 0.75


def test_all_is_put_back_even_where_an_item_fails() -> None:
    before = zipfile.ZipFile.__init__
    with pytest.raises(FileNotFoundError), stages.timed_accesses(FakeProcess()):
        zipfile.ZipFile("nowhere.zip")
    assert zipfile.ZipFile.__init__ is before
    assert isinstance(zipfile.ZipFile, type)
