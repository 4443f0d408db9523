"""A script that prints without end takes little of the disk, and its last words are kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.processes import observed, python, script
from trainperf.run import spawn
from trainperf.run.spawn import Output

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "MOST_BYTES", 1 << 20)


def test_the_end_of_what_is_printed_is_kept(tmp_path: Path) -> None:
    source = """
    import time
    for _ in range(40):
        print("x" * (1 << 18), flush=True)
        time.sleep(0.02)
    print("the last words")
    """
    script(tmp_path, source, "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run")
    text = (tmp_path / "run" / "output.log").read_text()
    assert recording.output_tail.endswith("the last words\n")
    assert "\0" not in text
    assert len(text) < 5 << 20


def test_the_disk_gets_back_what_was_printed_while_it_is(tmp_path: Path) -> None:
    with Output(tmp_path) as log:
        for _ in range(30):
            os.write(log.file.fileno(), b"x" * (1 << 18))
            log.look()
            assert os.fstat(log.file.fileno()).st_blocks * 512 <= (1 << 20) + (1 << 18)


def test_another_run_in_the_folder_begins_anew(tmp_path: Path) -> None:
    for words in (b"the first run", b"the second"):
        with Output(tmp_path) as log:
            os.write(log.file.fileno(), words)
    assert (tmp_path / "output.log").read_text() == "the second"
