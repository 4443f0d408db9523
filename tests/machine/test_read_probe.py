"""A sample is read cold and warm, and the cache is left as it was; on this very disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainperf.machine.storage import read_probe
from trainperf.machine.storage.read_probe import MOST_BYTES, MOST_FILES, PIECE, Piece, probe, sample
from trainperf.machine.storage.reads import mount_of
from trainperf.samplers.levels import mounts


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder whose files the kernel can be made to forget."""
    mount = mount_of(str(tmp_path.resolve()), mounts())
    if mount is None or mount.filesystem in ("tmpfs", "overlay"):
        pytest.skip("the temporary folder is not on a disk")
    return tmp_path


def written(folder: Path, many: int, size: int) -> list[tuple[str, int]]:
    files = []
    for number in range(many):
        path = folder / f"{number:04}.bin"
        with path.open("wb") as file:
            file.write(os.urandom(size))
            os.fsync(file.fileno())
        files.append((str(path), size))
    return files


def held(path: str) -> float:
    fd = os.open(path, os.O_RDONLY)
    try:
        share = read_probe.resident(fd, 0, os.path.getsize(path))
    finally:
        os.close(fd)
    assert share is not None
    return share


def forget(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    read_probe.drop(fd, 0, os.path.getsize(path))
    os.close(fd)


def test_a_sample_is_bounded_and_spread() -> None:
    assert sample([]) == []
    assert sample([("empty", 0)]) == []

    many = sample([(str(number), 1000) for number in range(1000)])
    assert len(many) == MOST_FILES
    assert int(many[-1].path) > 900
    assert {piece.length for piece in many} == {1000}

    large = sample([("big", 10**12)])
    assert sum(piece.length for piece in large) == MOST_BYTES
    assert large[-1].offset > 9 * 10**11
    assert all(piece.offset % read_probe.PAGE == 0 for piece in large)

    several = sample([(str(number), 10**9) for number in range(100)])
    assert sum(piece.length for piece in several) <= MOST_BYTES
    assert len({piece.path for piece in several}) == MOST_BYTES // PIECE


def test_small_files_are_read_cold_and_then_warm(disk: Path) -> None:
    files = written(disk, 40, 20_000)

    found = probe(sample(files))

    assert found.reason == ""
    assert found.probed_bytes == 40 * 20_000
    assert found.cold_bytes_s is not None
    assert found.cold_parallel_bytes_s is not None
    assert found.cold_file_s is not None
    assert found.warm_file_s is not None
    assert 0 < found.warm_file_s < found.cold_file_s


def test_what_was_cached_is_cached_again_and_what_was_not_is_not(disk: Path) -> None:
    files = written(disk, 40, 20_000)
    cold = [path for path, _ in files[::4]]
    for path in cold:
        forget(path)
    assert all(held(path) == 0.0 for path in cold)

    probe(sample(files))

    for path, _ in files:
        assert held(path) == (0.0 if path in cold else 1.0), path


def test_a_file_that_the_kernel_keeps_gives_no_cold_rate(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written(disk, 4, 20_000)
    monkeypatch.setattr(read_probe, "drop", lambda fd, offset, length: None)

    found = probe(sample(files))

    assert found.cold_bytes_s is None
    assert "could not be made cold" in found.reason


def test_another_users_file_gives_no_cold_rate(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(disk, 4, 20_000)
    monkeypatch.setattr(read_probe, "tells", lambda fd: False)

    found = probe(sample(files))

    assert found.cold_bytes_s is None
    assert "another user" in found.reason
    assert all(held(path) == 1.0 for path, _ in files)  # nothing was dropped


def test_time_is_bounded_and_what_was_dropped_is_read_again(disk: Path) -> None:
    files = written(disk, 60, 50_000)

    found = probe(sample(files), seconds=0.0)

    assert found.probed_bytes <= 50_000
    assert all(held(path) == 1.0 for path, _ in files)


def test_a_pipe_that_has_taken_a_files_place_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    found = probe([Piece(str(tmp_path / "pipe"), 0, 10)])

    assert "no regular file" in found.reason
