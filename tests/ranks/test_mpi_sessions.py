"""Leavings of a killed `mpirun` go; those of another job stay."""

import os

from trainperf.run.stopping import remove_sessions


def session(folder, pid, uid=None):
    made = folder / f"ompi.host.{os.getuid() if uid is None else uid}" / f"pid.{pid}" / "0"
    made.mkdir(parents=True)
    return made.parent


def test_the_session_of_a_stopped_process_goes_and_those_of_others_stay(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine, theirs, nobodys = (session(tmp_path, pid) for pid in (41, 42, "x"))
    other = session(tmp_path, 41, uid=os.getuid() + 1)
    remove_sessions({41})
    assert [path.exists() for path in (mine, theirs, nobodys, other)] == [False, True, True, True]
    remove_sessions({42})
    assert nobodys.exists()
