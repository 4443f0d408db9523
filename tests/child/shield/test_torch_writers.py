"""PyTorch's writers write to the scratch folder, and are read from there."""

from __future__ import annotations

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
