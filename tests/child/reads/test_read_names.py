"""Names of files that C code reads are found where they are kept."""

from __future__ import annotations

import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trainperf.child.reads import files as read_names


def names(dataset: Any) -> list[str]:
    return read_names.names_of_dataset(dataset)


def files(folder: Path, many: int) -> list[str]:
    paths = [folder / f"{number}.bin" for number in range(many)]
    for path in paths:
        path.write_bytes(b"x" * 10)
    return [str(path) for path in paths]


class Pictures:
    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples
        self.classes = ["cat", "dog"]


def test_the_list_of_a_dataset_gives_names(tmp_path: Path) -> None:
    paths = files(tmp_path, 30)
    dataset = Pictures([(path, 1) for path in paths])
    assert names(SimpleNamespace(dataset=dataset)) == paths  # its list of classes names no files


def test_strings_that_are_no_files_are_no_names(tmp_path: Path) -> None:
    assert names(None) == []
    assert names(SimpleNamespace(dataset=Pictures([str(tmp_path / "gone")]))) == []
    assert names(SimpleNamespace(dataset=Pictures(["s3://bucket/key"]))) == []


def test_a_file_that_is_mapped_is_held(tmp_path: Path) -> None:
    (path,) = files(tmp_path, 1)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        assert path in read_names._held_names("/nowhere")
        assert path not in read_names._held_names(str(tmp_path))  # trainperf's own
    assert path not in read_names._held_names("/nowhere")
