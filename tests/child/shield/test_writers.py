"""Writers are sent to the run's scratch folder, and read back what they wrote."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from trainperf.child.shield import writers
from trainperf.child.shield.redirected import Writing
from trainperf.child.shield.writers import Scratch, mend_renames


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user's folder with a checkpoint in it."""
    folder = tmp_path / "user"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints/best.keras").write_text("theirs")
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    (tmp_path / "run").mkdir()
    return Scratch(str(tmp_path / "run"))


def test_a_path_that_is_guarded_stays(tmp_path, user):
    scratch = Scratch(str(tmp_path / "run"), [str(user)])
    inside = user / "checkpoints/best.keras"
    assert scratch.redirect(str(inside)) == str(inside)
    assert scratch.redirect(inside) is inside
    assert scratch.reading(inside) is inside
    assert scratch.redirect("/dev/null") == "/dev/null"
    assert not (tmp_path / "run/scratch").exists()


def test_a_guarded_folder_guards_nothing_that_is_mounted_inside_it(tmp_path, monkeypatch):
    (tmp_path / "user/mounted").mkdir(parents=True)
    monkeypatch.setattr(writers, "device", lambda path: 2 if path.endswith("mounted") else 1)
    scratch = Scratch(str(tmp_path / "run"), [str(tmp_path / "user")])
    assert scratch.place(tmp_path / "user/file") is None
    assert scratch.place(tmp_path / "user/mounted/file") is not None


def test_temporary_files_that_the_program_made_stay_and_others_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp/before").mkdir(parents=True)
    scratch = Scratch(str(tmp_path / "run"))
    made = tempfile.mkdtemp()
    assert scratch.redirect(made + "/model.keras") == made + "/model.keras"
    for name in ("before/model.keras", "not there yet/model.keras"):
        path = str(tmp_path / "tmp" / name)
        assert scratch.redirect(path).startswith(scratch.folder)


def test_remote_paths_are_redirected_and_said(tmp_path):
    said: list[str] = []
    scratch = Scratch(str(tmp_path / "run"), ["/"], said.append)
    assert scratch.redirect("s3://bucket/a/../../b") == scratch.folder + "/remote/s3/bucket/a/b"
    assert scratch.redirect("gs://bucket/a").endswith("/remote/gs/bucket/a")
    assert "s3://" in said[0]
    assert scratch.reading("hdfs://host/data") == "hdfs://host/data"


# --- stand-ins for modules of file functions ---


def test_a_module_that_has_changed_is_left_alone_and_that_is_said(tmp_path):
    notes: list[str] = []
    process = SimpleNamespace(note=notes.append, settings={"folder": str(tmp_path)})
    name = "keras.src.callbacks.csv_logger"
    Writing(process).hook(ModuleType(name))
    assert "csv_logger writes could not be redirected" in notes[0]


def test_a_path_is_redirected_by_its_place_and_by_its_name(tmp_path, user):
    process = SimpleNamespace(note=print, settings={"folder": str(tmp_path / "run")})
    module = ModuleType("tensorflow.python.profiler.profiler_v2")
    module.start = lambda logdir, options=None: logdir
    Writing(process).hook(module)
    assert module.start(str(user)).startswith(str(tmp_path / "run/scratch"))
    assert module.start(logdir=str(user)).startswith(str(tmp_path / "run/scratch"))
    assert module.start("") == ""


# --- renaming folders in a view ---


@pytest.fixture
def refusing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Renaming folders fails, as it does for an ordinary user in a view."""
    real = os.rename

    def rename(src: str, dst: str) -> None:
        if os.path.isdir(src):
            raise OSError(errno.EXDEV, "Invalid cross-device link", src, None, dst)
        real(src, dst)

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "replace", os.replace)
    mend_renames([str(tmp_path)])
    return tmp_path


def test_a_folder_of_a_view_can_be_renamed(refusing):
    (refusing / "logs").mkdir()
    (refusing / "logs/events").write_text("kept")
    (refusing / "empty").mkdir()
    os.rename(refusing / "logs", refusing / "logs.old")
    assert (refusing / "logs.old/events").read_text() == "kept"
    assert not (refusing / "logs").exists()
    (refusing / "logs.old").rename(refusing / "empty")
    assert (refusing / "empty/events").read_text() == "kept"


def test_a_rename_that_fails_for_another_reason_fails(refusing):
    with pytest.raises(FileNotFoundError):
        os.rename(refusing / "nothing", refusing / "other")
    (refusing / "one").mkdir()
    (refusing / "full/inside").mkdir(parents=True)
    with pytest.raises(OSError, match="not empty"):
        os.rename(refusing / "one", refusing / "full")
    assert (refusing / "one").is_dir()
