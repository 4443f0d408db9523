"""PyTorch's writers write to the scratch folder, and are read from there."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from trainperf.child.shield.modules import WRITING
from trainperf.child.shield.writing import Writing


@pytest.fixture
def process(tmp_path: Path) -> Any:
    (tmp_path / "run").mkdir()
    notes: list[str] = []
    made = SimpleNamespace(
        notes=notes, note=notes.append, settings={"folder": str(tmp_path / "run")}
    )
    made.writing = Writing(made)
    yield made
    made.writing.undo()


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user's folder with a checkpoint in it, where no view covers it."""
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "last.pt").write_text("theirs")
    return folder


def hooked(process: Any, name: str, **functions: Any) -> Any:
    module = ModuleType(name)
    module.__dict__.update(functions)
    process.writing.hook(module, WRITING[name])
    assert process.notes == []
    return module


def place(tmp_path: Path, path: Path) -> str:
    return f"{tmp_path}/run/scratch/local{path}"


def test_a_module_that_was_hooked_is_let_go_again(process, user, tmp_path):
    def save(obj: Any, f: Any) -> Any:
        return f

    module = hooked(process, "torch.serialization", save=save, load=lambda f: f)
    assert module.save(1, user / "last.pt") == place(tmp_path, user / "last.pt")
    process.writing.undo()
    assert module.save is save


@pytest.mark.parametrize("as_path", [str, Path])
def test_safetensors_are_saved_to_and_loaded_from_the_scratch_folder(
    process, user, tmp_path, as_path
):
    def save_file(tensors: Any, filename: Any, metadata: Any = None) -> None:
        Path(filename).write_text(tensors)

    def load_file(filename: Any, device: str = "cpu") -> str:
        return Path(filename).read_text()

    module = hooked(
        process,
        "safetensors.torch",
        save_file=save_file,
        load_file=load_file,
        save_model=lambda model, filename: save_file(model, filename),
        load_model=lambda model, filename: load_file(filename),
    )
    path = as_path(user / "last.pt")
    assert module.load_file(path) == "theirs"
    module.save_file("ours", path)
    assert module.load_file(path) == module.load_file(filename=path) == "ours"
    module.save_model("the model", filename=path)
    assert module.load_model(None, path) == "the model"
    assert (user / "last.pt").read_text() == "theirs"


@pytest.mark.parametrize(
    ("name", "argument"),
    [("torch.utils.tensorboard.writer", "log_dir"), ("tensorboardX.writer", "logdir")],
)
def test_summaries_are_written_to_the_scratch_folder(process, user, tmp_path, name, argument):
    class Writer:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.folder = args[0] if args else kwargs[argument]

    module = hooked(process, name, FileWriter=Writer)
    assert module.FileWriter(str(user)).folder == place(tmp_path, user)
    assert module.FileWriter(**{argument: str(user)}).folder == place(tmp_path, user)


# ------------------------------------------------------------------ PyTorch's own


@pytest.fixture
def torch(process: Any) -> Any:
    module = pytest.importorskip("torch")
    saved = module.save, module.load
    process.writing.hook(module.serialization, WRITING["torch.serialization"])
    # As in a run: `import torch` takes both from the hooked module.
    module.save, module.load = module.serialization.save, module.serialization.load
    yield module
    module.save, module.load = saved


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_checkpoint_is_saved_and_read_back_without_touching_the_users(
    process, torch, user, tmp_path, as_path
):
    path = as_path(user / "last.pt")
    torch.save({"x": torch.ones(2)}, path)
    assert torch.equal(torch.load(path)["x"], torch.ones(2))
    torch.save({"x": torch.zeros(2)}, f=path)
    assert torch.equal(torch.load(f=path)["x"], torch.zeros(2))
    assert (user / "last.pt").read_text() == "theirs"
    assert Path(place(tmp_path, user / "last.pt")).is_file()
    assert process.notes == []


def test_a_checkpoint_of_another_run_is_read_from_where_it_is(torch, user):
    data = io.BytesIO()
    torch.save({"x": 1}, data)
    (user / "earlier.pt").write_bytes(data.getvalue())
    assert torch.load(user / "earlier.pt") == {"x": 1}


def test_an_open_file_is_written_as_it_is(torch, tmp_path):
    data = io.BytesIO()
    torch.save([1, 2], data)
    data.seek(0)
    assert torch.load(data) == [1, 2]
    assert not (tmp_path / "run/scratch").exists()


def test_an_error_is_the_one_that_the_script_would_get(torch, user):
    with pytest.raises(FileNotFoundError, match=r"nothing\.pt"):
        torch.load(user / "nothing.pt")


def test_a_checkpoint_can_be_written_under_another_name_first(torch, user):
    for number in range(2):
        torch.save(number, user / "last.tmp")
        os.replace(user / "last.tmp", user / "last.pt")
        assert torch.load(user / "last.pt") == number
    torch.save(2, user / "last.tmp")
    (user / "last.tmp").rename(str(user / "first.pt"))
    assert torch.load(user / "first.pt") == 2
    assert os.listdir(user) == ["last.pt"]
    assert (user / "last.pt").read_text() == "theirs"


def test_checkpoints_are_removed_for_the_run_alone(torch, user):
    torch.save(1, user / "one.pt")
    os.remove(user / "one.pt")
    (user / "last.pt").unlink()
    for path in (user / "one.pt", user / "last.pt", user / "nothing.pt"):
        with pytest.raises(FileNotFoundError):
            os.remove(path)
    with pytest.raises(FileNotFoundError):
        torch.load(user / "last.pt")
    assert (user / "last.pt").read_text() == "theirs"
    torch.save(2, user / "last.pt")
    assert torch.load(user / "last.pt") == 2


def test_files_of_folders_without_a_checkpoint_are_renamed_and_removed_as_ever(torch, user):
    (user / "a").write_text("a")
    os.rename(user / "a", user / "b")
    os.remove(user / "b")
    assert os.listdir(user) == ["last.pt"]
    with pytest.raises(FileNotFoundError):
        os.remove(user / "b")
    folder = os.open(user, os.O_RDONLY)
    os.unlink("last.pt", dir_fd=folder)
    os.close(folder)
    assert os.listdir(user) == []
