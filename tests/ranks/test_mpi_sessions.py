"""Leavings of a killed `mpirun` go; those of another job stay."""

import os

from trainperf.run.stopping import remove_sessions


def session(folder, pid, uid=None):
    made = folder / f"ompi.host.{os.getuid() if uid is None else uid}" / f"pid.{pid}" / "0"
    made.mkdir(parents=True)
    return made.parent


def test_the_session_of_a_stopped_process_goes_with_its_folder(tmp_path):
    made = session(tmp_path, 41)
    assert remove_sessions({41}, str(tmp_path)) == [str(made)]
    assert list(tmp_path.iterdir()) == []


def test_other_jobs_and_other_users_keep_theirs(tmp_path):
    mine, theirs = session(tmp_path, 41), session(tmp_path, 42)
    other = session(tmp_path, 41, uid=os.getuid() + 1)
    assert remove_sessions({41}, str(tmp_path)) == [str(mine)]
    assert theirs.exists()
    assert other.exists()


def test_a_name_that_is_no_number_is_left_alone(tmp_path):
    made = tmp_path / f"ompi.host.{os.getuid()}" / "pid.x"
    made.mkdir(parents=True)
    assert remove_sessions({41}, str(tmp_path)) == []
    assert made.exists()
