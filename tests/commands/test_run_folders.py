"""Folders of runs are the user's own; nobody else makes, swaps or reads what is in them."""

import os
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from trainperf import store
from trainperf.commands.run_folders import find, new_folder
from trainperf.errors import TrainperfError
from trainperf.settings import Settings


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A temporary folder that everybody may write into, with the name that runs have in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    return tmp_path / f"trainperf-{os.getuid()}"


@pytest.fixture
def settings(shared):
    return replace(Settings(), output_dir=shared / "runs")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_made_is_for_the_user_alone(shared, settings):
    made = new_folder(settings, "train.py")
    assert [mode(one) for one in (shared, shared / "runs", made)] == [0o700] * 3
    store.write_whole(made / "run.json", b"{}")
    assert mode(made / "run.json") == 0o600


def test_a_folder_that_others_may_write_into_is_refused(shared, settings):
    (shared / "runs" / "old").mkdir(parents=True)
    (shared / "runs" / "old" / store.DIAGNOSIS_FILE).write_text("{}")
    assert find(None, settings).parent.name == "old"
    shared.chmod(0o777)
    for act in (
        lambda: new_folder(settings, "train.py"),
        lambda: find(None, settings),
        lambda: find(Path("old"), settings),
    ):
        with pytest.raises(TrainperfError, match="not a folder of yours alone"):
            act()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_folder_of_another_user_is_refused(shared, settings):
    shared.mkdir(mode=0o700)
    os.chown(shared, 1234, 1234)
    with pytest.raises(TrainperfError, match="not a folder of yours alone"):
        new_folder(settings, "train.py")


def test_a_planted_part_is_not_written_through(tmp_path):
    target, precious = tmp_path / "report.json", tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / f".report.json.{os.getpid()}.part").symlink_to(precious)
    store.write_whole(target, b"new")
    assert (precious.read_text(), target.read_text()) == ("mine", "new")
