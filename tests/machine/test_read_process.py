"""Files are looked at by a process that can be left behind, should their file system hang."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from recordings import recording
from trainperf.machine.storage import reads
from trainperf.model import Reads, Recording

pytestmark = pytest.mark.script

FUSE_INIT = 26
LONG_S = 60.0


def read_from(*paths: Path | str) -> Recording:
    event: dict[str, Any] = {
        "e": "reads", "since": 0.0, "seconds": 4.0, "opens": len(paths), "files": len(paths),
        "at_least": False, "paths": [str(path) for path in paths], "workers": 0,
        "read_bytes": 0, "stored_bytes": 0, "counted": True, "named": [], "names": 0,
        "held": [], "sizes": {},
    }  # fmt: skip
    return recording(event)


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Path]:
    """A file system that is mounted and then answers nothing, as one of a dead server."""
    libc = ctypes.CDLL(None, use_errno=True)
    point = tmp_path / "stuck"
    point.mkdir()
    try:
        fd = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    options = f"fd={fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"stuck", bytes(point), b"fuse.stuck", 0, options.encode()):
        os.close(fd)
        pytest.skip(f"may not mount: {os.strerror(ctypes.get_errno())}")
    asked = os.read(fd, 1024**2)
    _, what, unique = struct.unpack_from("<IIQ", asked)
    assert what == FUSE_INIT
    answer = struct.pack("<IIIIHHI", 7, 31, 65536, 0, 12, 9, 65536).ljust(64, b"\0")
    os.write(fd, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)
    yield point
    libc.umount2(bytes(point), 2)  # MNT_DETACH
    os.close(fd)


def test_it_finds_what_looking_here_finds(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(os.urandom(5000))

    (here,) = reads.examined(reads.of_files(read_from(tmp_path / "a")))
    (apart,) = reads.probe(read_from(tmp_path / "a"))

    assert isinstance(apart, Reads)
    assert (apart.volume, apart.sizes, apart.examples) == (here.volume, here.sizes, here.examples)
    assert apart.probed_bytes == here.probed_bytes


def test_nothing_is_started_where_no_file_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)

    assert reads.probe(recording()) == ()


def test_a_file_system_that_never_answers_is_left_alone(stuck: Path, tmp_path: Path) -> None:
    began = time.monotonic()

    assert reads.probe(read_from(stuck / "a"), deadline_s=0.5) == ()
    assert time.monotonic() - began < LONG_S


def test_what_was_told_before_it_hung_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = tmp_path / "hangs"
    code = (
        "import time; from trainperf.machine.storage import read_probe, reads\n"
        f"read_probe.probe = lambda pieces: (open({str(hangs)!r}, 'w'), time.sleep(60))\n"
        "reads.serve()"
    )
    monkeypatch.setattr(reads, "_CODE", code)
    (tmp_path / "a").write_bytes(b"x" * 100)
    if reads.mount_of(str(tmp_path.resolve()), reads.mounts()).filesystem == "tmpfs":  # type: ignore[union-attr]
        pytest.skip("the temporary folder is in memory, which is not probed")

    def soon_after() -> bool:
        return hangs.exists() and time.time() > hangs.stat().st_mtime + 0.5

    (found,) = reads.probe(read_from(tmp_path / "a"), deadline_s=LONG_S, interrupted=soon_after)

    assert (found.sizes, found.reason) == ((100, 100, 100), reads.NO_ANSWER)


def test_it_ends_with_the_one_who_asked(tmp_path: Path) -> None:
    code = (
        "import time; from trainperf.machine.storage import reads\n"
        f"reads.examined = lambda *_, **__: (open({str(tmp_path / 'up')!r}, 'w'), time.sleep(60))\n"
        "reads.serve()"
    )
    asker = (
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        "from test_read_process import read_from\n"
        "from trainperf.machine.storage import reads\n"
        "reads._CODE = sys.argv[3]\n"
        "reads.probe(read_from('a'), deadline_s=60.0)"
    )
    here = Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", asker, str(here), str(here.parent), code], stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + LONG_S
    while not (tmp_path / "up").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    (child,) = psutil.Process(process.pid).children()

    process.kill()
    process.wait()

    child.wait(LONG_S)
