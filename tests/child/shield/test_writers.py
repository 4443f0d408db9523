"""Writers are sent to the run's scratch folder, and read back what they wrote."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from trainperf.child.shield import tensorflow, torch, writers
from trainperf.child.shield.changes import Changes, mend_renames
from trainperf.child.shield.modules import WRITING
from trainperf.child.shield.tensorflow import Files
from trainperf.child.shield.writers import Scratch
from trainperf.child.shield.writing import Writing


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
    assert not (tmp_path / "run/scratch").exists()


def test_a_guarded_folder_guards_nothing_that_is_mounted_inside_it(tmp_path, monkeypatch):
    (tmp_path / "user/mounted").mkdir(parents=True)
    monkeypatch.setattr(writers, "device", lambda path: 2 if path.endswith("mounted") else 1)
    scratch = Scratch(str(tmp_path / "run"), [str(tmp_path / "user")])
    assert scratch.place(tmp_path / "user/file") is None
    assert scratch.place(tmp_path / "user/mounted/file") is not None


def test_a_run_s_own_files_stay(scratch, tmp_path):
    place = scratch.redirect(str(tmp_path / "elsewhere/file"))
    assert scratch.redirect(place) == place


def test_temporary_files_that_the_program_made_stay_and_others_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp/before").mkdir(parents=True)
    scratch = Scratch(str(tmp_path / "run"))
    made = tempfile.mkdtemp()
    assert scratch.redirect(made + "/model.keras") == made + "/model.keras"
    for name in ("before/model.keras", "not there yet/model.keras"):
        path = str(tmp_path / "tmp" / name)
        assert scratch.redirect(path).startswith(scratch.folder)


def test_any_other_path_is_redirected_with_its_tree(scratch, user):
    path = user / "new/deep/model.keras"
    place = scratch.redirect(path)
    assert place == scratch.folder + "/local" + os.path.realpath(path)
    assert Path(place).parent.is_dir()
    assert not (user / "new").exists()


def test_two_names_of_one_file_have_one_place(scratch, user, monkeypatch):
    (user / "link").symlink_to("checkpoints")
    monkeypatch.chdir(user)
    names = ("checkpoints/x", "link/x", "./checkpoints/../link/x", str(user / "link/x"))
    assert len({scratch.redirect(name) for name in names}) == 1
    assert scratch.redirect(b"checkpoints/x") == scratch.redirect("checkpoints/x")
    assert scratch.redirect(f"file://{user}/link/x") == scratch.redirect("link/x")


def test_remote_paths_are_redirected_and_said(tmp_path):
    said: list[str] = []
    scratch = Scratch(str(tmp_path / "run"), ["/"], said.append)
    assert scratch.redirect("s3://bucket/a/../../b") == scratch.folder + "/remote/s3/bucket/a/b"
    assert scratch.redirect("gs://bucket/a").endswith("/remote/gs/bucket/a")
    assert "s3://" in said[0]
    assert scratch.reading("hdfs://host/data") == "hdfs://host/data"


def test_what_was_written_is_read_back_and_all_else_from_where_it_is(scratch, user):
    path = str(user / "checkpoints/best.keras")
    assert scratch.reading(path) == path
    place = scratch.redirect(path)
    assert scratch.reading(path) == path  # nothing was written yet
    Path(place).write_text("ours")
    assert scratch.reading(path) == place
    assert scratch.reading(str(user / "checkpoints/other")) == str(user / "checkpoints/other")


def test_a_checkpoint_is_known_by_its_index(scratch, user):
    prefix = str(user / "checkpoints/ckpt-1")
    Path(scratch.redirect(prefix) + ".index").touch()
    assert scratch.reading(prefix) == prefix
    assert scratch.reading(prefix, ("", ".index")) == scratch.place(prefix)


def test_appending_goes_on_from_what_is_there(scratch, user):
    (user / "log.csv").write_text("epoch\n")
    place = scratch.redirect(user / "log.csv", append=True)
    with open(place, "a") as file:
        file.write("1\n")
    again = scratch.redirect(user / "log.csv", append=True)
    assert Path(again).read_text() == "epoch\n1\n"
    assert (user / "log.csv").read_text() == "epoch\n"


def test_a_path_that_cannot_be_is_redirected_all_the_same(scratch):
    place = scratch.redirect("bad\0name")
    assert place.startswith(scratch.folder)
    with pytest.raises(ValueError, match="null byte"):
        Path(place).write_text("")


# --- stand-ins for modules of file functions ---


@pytest.fixture
def files(scratch: Scratch) -> Files:
    def matching(pattern: str) -> list[str]:
        folder, name = os.path.split(pattern)
        return [str(path) for path in Path(folder).glob(name)]

    module = SimpleNamespace(
        exists=os.path.exists,
        makedirs=os.makedirs,
        remove=os.remove,
        listdir=os.listdir,
        get_matching_files=matching,
        File=open,
        join=os.path.join,
    )
    return Files(module, scratch)


def test_functions_that_are_not_known_are_the_modules_own(files):
    assert files.join is os.path.join
    with pytest.raises(AttributeError):
        _ = files.nothing


def test_a_file_is_written_read_listed_and_removed_as_if_in_place(files, user):
    folder = str(user / "checkpoints")
    with files.File(folder + "/new", "w") as file:
        file.write("ours")
    assert files.exists(folder + "/new")
    assert files.File(folder + "/new").read() == "ours"
    assert files.listdir(folder) == ["best.keras", "new"]
    assert files.get_matching_files(folder + "/*") == [folder + "/best.keras", folder + "/new"]
    files.remove(folder + "/new")
    files.remove(folder + "/best.keras")
    assert not files.exists(folder + "/new")
    assert not files.exists(folder + "/best.keras")
    assert files.listdir(folder) == []
    assert files.get_matching_files(folder + "/*") == []
    assert os.listdir(folder) == ["best.keras"]


def test_a_new_file_in_a_removed_folder_is_alone_in_it(files, scratch, user):
    folder = str(user / "checkpoints")
    scratch.remove(folder)
    assert not files.exists(folder + "/best.keras")
    files.File(folder + "/new", "w").close()
    assert files.exists(folder + "/new")
    assert files.listdir(folder) == ["new"]


def test_every_module_whose_writers_are_redirected_has_a_function_for_it():
    parts = {"tensorflow": tensorflow, "torch": torch}
    for name in WRITING.values():
        part, _, function = name.partition(".")
        assert callable(getattr(parts[part], function))


def test_a_module_that_has_changed_is_left_alone_and_that_is_said(tmp_path):
    notes: list[str] = []
    process = SimpleNamespace(note=notes.append, settings={"folder": str(tmp_path)})
    name = "keras.src.callbacks.csv_logger"
    Writing(process).hook(ModuleType(name), WRITING[name])
    assert "csv_logger writes could not be redirected" in notes[0]


def test_what_was_redirected_can_be_let_go(tmp_path, user):
    process = SimpleNamespace(note=print, settings={"folder": str(tmp_path / "run")})
    module = ModuleType("tensorflow.python.profiler.profiler_v2")
    module.start = lambda logdir, options=None: logdir
    before = module.start
    writing = Writing(process)
    writing.hook(module, WRITING[module.__name__])
    assert module.start(str(user)).startswith(str(tmp_path / "run/scratch"))
    assert module.start(logdir=str(user)).startswith(str(tmp_path / "run/scratch"))
    assert module.start("") == ""
    writing.undo()
    assert module.start is before


# --- renaming folders in a view ---


@pytest.fixture
def refusing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Renaming folders fails, as it does for an ordinary user in a view."""
    real = os.rename

    def rename(src: str, dst: str) -> None:
        if os.path.isdir(src):
            raise OSError(errno.EXDEV, "Invalid cross-device link", src, None, dst)
        real(src, dst)

    monkeypatch.setattr(os, "rename", rename)
    changes = Changes()
    mend_renames([str(tmp_path)], changes)
    yield tmp_path
    changes.undo()
    assert os.rename is rename


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
