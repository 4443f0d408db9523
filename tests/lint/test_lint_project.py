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
        return self.load(i)
    def load(self, i):
        return Image.open(self.files[i])
"""
TRAIN = """
import torch
from torch.utils.data import DataLoader
{importing}
loader = DataLoader({named}(), batch_size=32)
for x in loader:
    model(x).backward()
    opt.step()
"""


def found(folder: Path, *named: str) -> list[tuple[str, str]]:
    paths = [folder / one for one in named] or [folder]
    return [(one.path.name, one.id) for one in lint(paths, all_rules()).seen]


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("importing", "named"),
    [
        ("from elsewhere import Images", "Images"),
        ("from ..data import Images", "Images"),  # another folder's
        ("from data import Others as Images", "Images"),
        ("from data import *", "Images"),
    ],
)
def test_what_is_not_there_is_unknown(tmp_path: Path, importing: str, named: str) -> None:
    write(tmp_path, data=DATA, train=TRAIN.format(importing=importing, named=named))
    assert found(tmp_path) == []


def test_files_that_were_not_named_are_not_looked_at(tmp_path: Path) -> None:
    importing = "from data import Images"
    write(tmp_path, data=DATA, train=TRAIN.format(importing=importing, named="Images"))
    assert found(tmp_path, "train.py") == []
    assert found(tmp_path, "train.py", "data.py") == [("train.py", "torch_workers")]


@pytest.mark.parametrize("other", ["class Images(:", "Images = make()", DATA * 2, "import torch"])
def test_what_is_not_certain_there_is_unknown(tmp_path: Path, other: str) -> None:
    importing = "from data import Images"
    write(tmp_path, data=other, train=TRAIN.format(importing=importing, named="Images"))
    assert found(tmp_path) == []


def test_files_that_import_each_other_are_no_loop(tmp_path: Path) -> None:
    importing = "from a import Images"
    write(tmp_path, train=TRAIN.format(importing=importing, named="Images"))
    write(tmp_path, a="import torch\nfrom b import Images", b="import torch\nfrom a import Images")
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("importing", "named"),
    [
        ("from data import Images", "Images"),
        ("from data import Images as I", "I"),
        ("import data", "data.Images"),
        ("from .data import Images", "Images"),
        ("from . import data", "data.Images"),
        ("from package.inner import Images", "Images"),
        ("from package import Images", "Images"),  # which takes it from its own module
    ],
)
def test_a_dataset_of_another_file_is_looked_into(
    tmp_path: Path, importing: str, named: str
) -> None:
    write(tmp_path, data=DATA, train=TRAIN.format(importing=importing, named=named))
    write(tmp_path, package__inner=DATA)
    (tmp_path / "package" / "__init__.py").write_text("from .inner import Images  # of torch")
    assert found(tmp_path) == [("train.py", "torch_workers")]


def test_a_script_in_a_folder_finds_packages_further_out(tmp_path: Path) -> None:
    train = TRAIN.format(importing="from package.data import Images", named="Images")
    write(tmp_path, package__data=DATA, scripts__train=train)
    assert found(tmp_path) == [("train.py", "torch_workers")]


def test_a_collate_fn_of_another_file_is_looked_into(tmp_path: Path) -> None:
    train = TRAIN.format(importing="from data import pad", named="make")
    write(tmp_path, train=train.replace("batch_size=32", "collate_fn=pad"))
    write(
        tmp_path,
        data="import torch\ndef pad(samples):\n    for one in samples:\n"
        "        torch.tensor([x for x in one])\n",
    )
    assert found(tmp_path) == [("train.py", "torch_workers")]


def test_a_keras_dataset_of_another_file_is_looked_into(tmp_path: Path) -> None:
    write(tmp_path, train="import keras\nfrom data import Images\nmodel.fit(Images())\n")
    keras = DATA.replace(
        "from torch.utils.data import Dataset", "from keras.utils import PyDataset"
    )
    write(tmp_path, data=keras.replace("(Dataset)", "(PyDataset)"))
    assert found(tmp_path) == [("train.py", "keras_pydataset_workers")]
