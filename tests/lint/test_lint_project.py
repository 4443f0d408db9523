"""Definitions that stand in another file of those that are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainperf.lint.check import lint
from trainperf.lint.rules import all_rules

DATA = """
from PIL import Image
from torch.utils.data import Dataset
class Images(Dataset):
    def __getitem__(self, i):
        return Image.open(self.files[i])
"""
TRAIN = """
import torch
from torch.utils.data import DataLoader
{importing}
loader = DataLoader({named}(), batch_size=32)
"""


def found(folder: Path, importing: str, named: str, *files: str, data: str = DATA) -> list[str]:
    (folder / "train.py").write_text(TRAIN.format(importing=importing, named=named))
    (folder / "data.py").write_text(data)
    paths = [folder / file for file in files] or [folder]
    return [remark.id for remark in lint(paths, all_rules()).seen]


@pytest.mark.parametrize(
    ("importing", "named"),
    [
        ("from data import Images as I", "I"),
        ("from . import data", "data.Images"),
        ("from package.data import Images", "Images"),  # which takes it from its own module
    ],
)
def test_a_dataset_of_another_file_is_looked_into(
    tmp_path: Path, importing: str, named: str
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "data.py").write_text("from ..data import Images  # of torch\n")
    assert found(tmp_path, importing, named) == ["torch_workers"]


@pytest.mark.parametrize("data", ["class Images(:", "Images = make()", DATA * 2])
def test_what_is_not_certain_there_is_unknown(tmp_path: Path, data: str) -> None:
    assert found(tmp_path, "from data import Images", "Images", data=data) == []


def test_files_that_were_not_named_are_not_looked_at(tmp_path: Path) -> None:
    assert found(tmp_path, "from data import Images", "Images", "train.py") == []


def test_files_that_import_each_other_are_no_loop(tmp_path: Path) -> None:
    data = "import torch\nfrom train import Images"
    assert found(tmp_path, "from data import Images", "Images", data=data) == []
