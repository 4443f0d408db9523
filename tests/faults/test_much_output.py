"""A script that prints without end takes little of the disk, and its last words are kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.processes import observed, python, script
from trainperf.run import output
from trainperf.run.output import Output

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(output, "FIRST_BYTES", 1 << 16)
    monkeypatch.setattr(output, "LAST_BYTES", 1 << 17)


def test_the_beginning_and_the_end_of_what_is_printed_are_kept(tmp_path: Path) -> None:
    source = """
    import time
    print("the first words")
    for _ in range(40):
        print("x" * (1 << 18), flush=True)
        time.sleep(0.02)
    print("the last words")
    """
    script(tmp_path, source, "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run")
    text = (tmp_path / "run" / "output.log").read_text()
    assert recording.output_tail.endswith("the last words\n")
    assert text.startswith("the first words\n")
    assert text.endswith("the last words\n")
    assert "[... 9 MiB that the script printed are left out here ...]" in text
    assert "\0" not in text
    assert len(text) < 1 << 18


def test_the_disk_gets_back_what_was_printed_while_it_is(tmp_path: Path) -> None:
    with Output(tmp_path) as log:
        for _ in range(30):
            os.write(log.file.fileno(), b"x" * (1 << 18))
            log.look()
            assert os.fstat(log.file.fileno()).st_blocks * 512 <= (1 << 20) + (1 << 18)


def test_where_the_disk_takes_nothing_back_the_beginning_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_punch", lambda *given: False)
    with Output(tmp_path) as log:
        for _ in range(30):
            os.write(log.file.fileno(), b"x" * (1 << 18))
            log.look()
        os.write(log.file.fileno(), b"the last words")
    text = (tmp_path / "output.log").read_text()
    assert text.endswith("the last words")
    assert len(text) <= 1 << 20


def test_another_run_in_the_folder_begins_anew(tmp_path: Path) -> None:
    for words in (b"the first run", b"the second"):
        with Output(tmp_path) as log:
            os.write(log.file.fileno(), words)
    assert (tmp_path / "output.log").read_text() == "the second"
