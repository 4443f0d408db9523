"""Files that processes tell of become one entry for each volume."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from recordings import recording
from trainperf.machine.storage.reads import NO_ANSWER, NO_TIME, Found, examined, of_files
from trainperf.model import Recording


def probe(recording: Recording, *at: Path, **given: Any) -> Found:
    return examined(of_files(recording), *at, **given)


def reads_event(**fields: Any) -> dict[str, Any]:
    return {
        "e": "reads",
        "since": 0.0,
        "seconds": 4.0,
        "opens": 0,
        "files": 0,
        "at_least": False,
        "paths": [],
        "workers": 0,
        "read_bytes": 0,
        "stored_bytes": 0,
        "counted": True,
        "named": [],
        "names": 0,
        "held": [],
        "sizes": {},
        **fields,
    }


def written(folder: Path, many: int, size: int = 1000) -> list[str]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.bin" for number in range(many)]
    for number, path in enumerate(paths):
        path.write_bytes(b"x" * (size + number))
    return [str(path) for path in paths]


@pytest.mark.parametrize(
    "events",
    [[], [reads_event()], [reads_event(read_bytes=10**9)]],
    ids=["none", "idle", "unnamed"],
)
def test_without_files_nothing_is_told(events: list[dict[str, Any]]) -> None:
    assert probe(recording(*events)) == ()


def test_files_are_counted_with_their_sizes(tmp_path: Path) -> None:
    paths = written(tmp_path, 101)

    (one,) = probe(recording(reads_event(opens=505, files=101, paths=paths)))

    assert (one.files, one.opens, one.seconds, one.at_least) == (101, 505, 4.0, False)
    assert one.sizes == (1010, 1050, 1090)
    assert one.total_bytes == sum(1000 + number for number in range(101))
    assert one.volume.mount
    assert len(one.examples) == 3


def test_each_volume_has_an_entry_and_memory_has_no_cold_rate(tmp_path: Path) -> None:
    """By a mountinfo of our own: one folder of this disk stands for a tmpfs."""
    here, memory = written(tmp_path / "disk", 3), written(tmp_path / "memory", 2)
    (tmp_path / "proc/self").mkdir(parents=True)
    real = os.path.realpath(tmp_path).replace(" ", "\\040")
    (tmp_path / "proc/self/mountinfo").write_text(
        "27 1 259:1 / / rw - ext4 /dev/nvme0n1 rw\n"
        f"40 27 0:51 / {real}/memory rw - tmpfs tmpfs rw\n"
    )
    event = reads_event(opens=50, files=5, paths=here + memory)

    told: list[Found] = []

    found = probe(recording(event), tmp_path, tell=told.append)

    assert [(one.volume.kind, one.files, one.opens) for one in found] == [
        ("", 3, 30),
        ("tmpfs", 2, 20),
    ]
    assert found[1].cold_bytes_s is None
    assert "in memory" in found[1].reason
    first, second = ([one.reason for one in known] for known in told)
    assert first == [NO_ANSWER, NO_TIME]  # of what hangs, and of what was not asked yet
    assert second == [found[0].reason, NO_ANSWER]


def test_pipes_devices_and_what_lies_in_proc_are_never_read(tmp_path: Path) -> None:
    import socket

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "kernel").symlink_to("/proc/kcore")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "circle").symlink_to("circle")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
        paths = sorted(map(str, tmp_path.iterdir()))
        found = probe(recording(reads_event(opens=5, files=5, paths=paths)))
    assert len(paths) == 5
    assert found == ()
