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


def test_what_a_process_left_is_removed_and_nothing_else(folder):
    remove_shm({1, 2, 345}, str(folder))
    remove_shm({12}, str(folder / "none"))
    assert {path.name for path in folder.iterdir()} == set(NAMES)
    remove_shm({12, 999}, str(folder))
    gone = {"sem.loky-12-abcd_1", "torch_12_345_0", "torch_12_9_17"}
    assert {path.name for path in folder.iterdir()} == set(NAMES) - gone
