"""Caches of compiled code: read from the user's, written to the trials' own, then gone."""

import os

import pytest

from trainperf.run import caches
from trainperf.run.caches import filled, private


@pytest.fixture
def users(tmp_path):
    """The folders of a user who compiled before."""
    inductor, home = tmp_path / "compiled", tmp_path / "home"
    for path in (inductor / "fxgraph" / "ab" / "key", home / ".triton" / "cache" / "kernel"):
        path.parent.mkdir(parents=True)
        path.write_text("the user's")
    (inductor / "locks").mkdir()
    (inductor / "locks" / "one.lock").touch()
    (home / "diary").write_text("private")
    return {"TORCHINDUCTOR_CACHE_DIR": str(inductor), "HOME": str(home)}


def files(folder):
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


def test_legs_read_what_the_user_compiled_and_nothing_else_of_his(users, tmp_path):
    own = tmp_path / "own"
    with filled(users, own):
        assert files(own) == ["inductor/fxgraph/ab/key", "triton/.triton/cache/kernel"]
        assert (own / "inductor" / "fxgraph" / "ab" / "key").read_text() == "the user's"
        told = private(users, own)
    assert told == {
        "TORCHINDUCTOR_CACHE_DIR": str(own / "inductor"),
        "TRITON_HOME": str(own / "triton"),
    }


def test_what_legs_write_is_theirs_and_goes_with_them(users, tmp_path):
    own, before = tmp_path / "own", files(tmp_path)
    with filled(users, own):
        entry = own / "inductor" / "fxgraph" / "ab" / "key"
        fresh = entry.with_name(".1.tmp")  # as torch._inductor.codecache.write_atomic does
        fresh.write_text("a leg's")
        os.replace(fresh, entry)
        (entry.parent / "other").write_text("a leg's")
        assert entry.read_text() == "a leg's"
    assert files(tmp_path) == before
    theirs = tmp_path / "compiled" / "fxgraph" / "ab" / "key"
    assert theirs.read_text() == "the user's"


def test_a_folder_of_triton_is_moved_only_where_the_user_moved_it(users, tmp_path):
    own = tmp_path / "own"
    moved = {**users, "TRITON_CACHE_DIR": str(tmp_path / "home" / ".triton" / "cache")}
    assert private(moved, own)["TRITON_CACHE_DIR"] == str(own / "triton")
    with filled(moved, own):
        assert (own / "triton" / "kernel").read_text() == "the user's"
    assert "TRITON_CACHE_DIR" not in private(users, own)


def test_a_large_folder_is_read_as_long_as_there_is_time(users, tmp_path, monkeypatch):
    monkeypatch.setattr(caches, "LONGEST_S", -1.0)
    with filled(users, tmp_path / "own"):
        assert files(tmp_path / "own") == []
        assert (tmp_path / "own" / "inductor").is_dir()


def test_the_usual_place_is_pytorchs_own(monkeypatch):
    places = pytest.importorskip("torch._inductor.runtime.cache_dir_utils")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert caches._of_inductor(os.environ) == places.default_cache_dir()
