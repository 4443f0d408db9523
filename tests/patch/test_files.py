"""Files are replaced together or not at all, and keep what they are besides their text."""

import errno
import os

import pytest

from trainperf.errors import TrainperfError
from trainperf.patch.fix import replace_all

OLD, NEW = b"old\r\n", b"new\r\n\xff"


@pytest.fixture
def two(tmp_path):
    paths = [tmp_path / "a.py", tmp_path / "b.py"]
    for path in paths:
        path.write_bytes(OLD)
    return paths


def replaced(*paths):
    return replace_all({str(path): OLD for path in paths}, {str(path): NEW for path in paths})


def as_before(folder, *paths):
    assert all(path.read_bytes() == OLD for path in paths)
    assert sorted(folder.iterdir()) == sorted(paths)
    return True


def test_the_bytes_change_and_mode_and_owner_stay(two, tmp_path):
    two[0].chmod(0o754)
    if os.geteuid() == 0:
        os.chown(two[0], 1234, 4321)
    before = two[0].stat()
    replaced(*two)
    assert [path.read_bytes() for path in two] == [NEW, NEW]
    after = two[0].stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert sorted(tmp_path.iterdir()) == two


def test_one_that_holds_something_else_holds_all_back(two, tmp_path):
    with pytest.raises(TrainperfError, match=r"b\.py was changed just now"):
        replace_all({str(two[0]): OLD, str(two[1]): b"other"}, {str(path): NEW for path in two})
    assert as_before(tmp_path, *two)


def test_a_symbolic_link_stays_one(two, tmp_path):
    link = tmp_path / "link.py"
    link.symlink_to("a.py")
    replaced(link)
    assert link.is_symlink()
    assert two[0].read_bytes() == NEW


def test_a_read_only_file_is_not_replaced(two, tmp_path):
    two[1].chmod(0o444)
    with pytest.raises(TrainperfError, match=r"b\.py cannot be written: it is read-only"):
        replaced(*two)
    assert as_before(tmp_path, *two)


@pytest.mark.parametrize("kind", ["folder", "gone", "pipe"])
def test_what_is_no_file_is_refused(two, tmp_path, kind):
    other = tmp_path / "other"
    if kind == "folder":
        other.mkdir()
    if kind == "pipe":
        os.mkfifo(other)
    with pytest.raises(TrainperfError):
        replaced(two[0], other)
    assert two[0].read_bytes() == OLD


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_an_interrupted_write_leaves_the_originals(two, tmp_path, monkeypatch, fault, late):
    real, calls = os.replace, []

    def interrupted(source, target):
        calls.append(target)
        if len(calls) == 2 and late:
            real(source, target)
        if len(calls) == 2:
            raise fault
        real(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises((KeyboardInterrupt, TrainperfError)):
        replaced(*two)
    assert as_before(tmp_path, *two)
