"""Shared memory is attributed to a process by its name, and only then removed."""

import pytest

from trainperf.run.stopping import remove_shm

NAMES = (
    "torch_12_345_0",
    "torch_123_345_0",
    "torch_12_9_17",
    "sem.loky-12-abcd_1",
    "sem.mp-12abcdef",
    "psm_12345678",
    "torch_12",
    "mytorch_12_1_1",
    "torch_12_345_0.keep",
)


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / name).touch()
    return tmp_path


def test_what_names_no_process_or_another_is_nobodys(folder):
    assert remove_shm({1, 2, 345}, str(folder)) == []
    assert remove_shm(set(), str(folder)) == []
    assert remove_shm({12}, str(folder / "none")) == []


def test_what_a_process_left_is_removed(folder):
    gone = remove_shm({12, 999}, str(folder))
    expected = ["sem.loky-12-abcd_1", "torch_12_345_0", "torch_12_9_17"]
    assert gone == [str(folder / name) for name in expected]
    assert {path.name for path in folder.iterdir()} == set(NAMES) - {p.split("/")[-1] for p in gone}
    assert remove_shm({12}, str(folder)) == []
