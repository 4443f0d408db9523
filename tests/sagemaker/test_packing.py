"""Packing a source folder: the files that go along, and those that stay at home."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from trainperf.errors import TrainperfError
from trainperf.sagemaker import packing
from trainperf.sagemaker.packing import pack, relative_script


def names(data: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return set(tar.getnames())


def write(folder: Path, *paths: str, text: str = "x") -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_what_is_no_source_stays_at_home(tmp_path: Path) -> None:
    write(tmp_path, ".git/config", "__pycache__/a.pyc", "a.pyc", ".env", ".venv/bin/python")
    write(tmp_path, "own/pyvenv.cfg", "own/lib/x.py", "key.pem", ".aws/credentials", "server.key")
    write(tmp_path, ".netrc", "id_rsa", "sub/.pypirc", ".git-credentials")
    write(tmp_path, "train.py", "package/model.py", "configs/base.yaml", "requirements.txt")
    packed = pack(tmp_path, "train.py")
    assert names(packed.data) == {
        "train.py", "package/model.py", "configs/base.yaml", "requirements.txt"
    }  # fmt: skip
    assert packed.files == 4


def test_what_git_ignores_stays_at_home(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "data/x.bin", "logs/a.log", "keep/a.txt", "deep/runs/x")
    write(tmp_path, ".gitignore", text="# comment\n*.log\ndata/\n/deep/runs\n")
    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)
    assert names(pack(tmp_path, "train.py").data) == {"train.py", "keep/a.txt", ".gitignore"}


def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "secret", "code/train.py", "code/real.txt")
    (tmp_path / "code/out").symlink_to(tmp_path / "secret")
    (tmp_path / "code/in").symlink_to(tmp_path / "code/real.txt")
    (tmp_path / "code/broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "code/pipe")
    assert names(pack(tmp_path / "code", "train.py").data) == {"train.py", "real.txt", "in"}


def test_large_files_are_left_out_by_name_and_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "LARGEST_FILE", 1000)
    monkeypatch.setattr(packing, "LARGEST", 1500)
    write(tmp_path, "train.py")
    write(tmp_path, "weights.bin", text="x" * 1001)
    packed = pack(tmp_path, "train.py")
    assert names(packed.data) == {"train.py"}
    assert packed.left_out[0].startswith("weights.bin")

    write(tmp_path, "a", "b", text="x" * 900)
    with pytest.raises(TrainperfError, match="to pack") as caught:
        pack(tmp_path, "train.py")
    assert "--input" in caught.value.hint


def test_a_script_is_named_from_here_or_from_the_source_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "code/sub/train.py", "other.py")
    monkeypatch.chdir(tmp_path)
    assert relative_script(Path("code/sub/train.py"), Path("code")) == "sub/train.py"
    assert relative_script(Path("sub/train.py"), Path("code")) == "sub/train.py"
    with pytest.raises(TrainperfError, match="not inside"):
        relative_script(Path("other.py"), Path("code"))
    with pytest.raises(TrainperfError, match="no such folder"):
        relative_script(Path("other.py"), Path("nothing"))


def test_a_script_that_would_not_be_there_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "venv/train.py", "main.py")
    with pytest.raises(TrainperfError, match="left out"):
        pack(tmp_path, "venv/train.py")
