"""Memory, open files and disk of trainperf itself are bounded, whatever a script writes."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest

from kit.processes import events, observed, python, script
from trainperf import bounded, store
from trainperf.errors import TrainperfError
from trainperf.model import Ending, Event
from trainperf.rewrite import editing
from trainperf.run import event_files
from trainperf.run.event_files import EventFiles
from trainperf.run.spawn import OUTPUT

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "LOOK_BYTES", 1 << 10)
    monkeypatch.setattr(event_files, "MOST_BYTES", 1 << 14)
    monkeypatch.setattr(event_files, "MOST_FILES", 8)


def read(folder: Path) -> tuple[EventFiles, list[Event]]:
    taken: list[Event] = []
    files = EventFiles(folder, taken.append)
    files.read()
    return files, taken


def line(number: int, fill: int = 0) -> str:
    return json.dumps({"e": "step", "t": float(number), "n": number, "x": "x" * fill}) + "\n"


@pytest.mark.usefixtures("small")
def test_events_are_read_in_portions_and_none_is_lost(tmp_path: Path) -> None:
    (tmp_path / "events-1.jsonl").write_text("".join(map(line, range(100))))
    files, taken = read(tmp_path)
    assert [one["n"] for one in taken] == list(range(100))
    assert not files.lost


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("fill", [1 << 10, 1 << 12], ids=["by a little", "by much"])
def test_a_line_that_is_too_long_is_passed_over_and_named(tmp_path: Path, fill: int) -> None:
    text = line(0) + line(1, fill) + line(2)
    (tmp_path / "events-1.jsonl").write_text(text)
    _, taken = read(tmp_path)
    assert [one["n"] for one in taken if one["e"] == "step"] == [0, 2]
    assert ["left out" in one["text"] for one in taken if one["e"] == "note"] == [True]


@pytest.mark.usefixtures("small")
def test_a_line_without_end_takes_no_more_than_it_may(tmp_path: Path) -> None:
    (tmp_path / "events-1.jsonl").write_text("x" * (1 << 20))
    files, taken = read(tmp_path)
    assert "MiB were recorded" in files.lost
    assert len(taken) == 2  # a line was left out; there are no more
    files.read()
    assert len(taken) == 2


@pytest.mark.parametrize("name", ["events-7.jsonl", "events-x.jsonl", "events-07.jsonl"])
@pytest.mark.parametrize("what", ["pipe", "folder", "device", "link to nowhere"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, name: str, what: str) -> None:
    place = tmp_path / name
    if what == "pipe":
        os.mkfifo(place)
    elif what == "folder":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero" if what == "device" else tmp_path / "none")
    (tmp_path / "events-9.jsonl").write_text(line(1))
    files, taken = read(tmp_path)
    assert [one["n"] for one in taken if one["e"] == "step"] == [1]
    assert not files.lost


@pytest.mark.parametrize(
    "name", ["lost-", "lost-x-28", "lost-1-2-3", "lost-1-99999999999999999999"]
)
def test_a_loss_is_one_that_a_process_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert not read(tmp_path)[0].lost
    (tmp_path / "lost-7-28").touch()
    assert read(tmp_path)[0].lost == "No space left on device"


def test_a_run_that_records_without_end_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_files, "MOST_BYTES", 1 << 18)
    source = """
    import json, os
    folder = json.load(open(os.environ["TRAINPERF_RUN"]))["folder"]
    line = json.dumps({"e": "x", "t": 1.0, "x": "x" * 4000}) + "\\n"
    with open(f"{folder}/events-{os.getpid()}.jsonl", "a") as file:
        while True:
            file.write(line)
            file.flush()
    """
    script(tmp_path, source, "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run")
    assert recording.ending == Ending.MEASURED
    assert any("more than 0 MiB were recorded" in one["text"] for one in events(recording, "note"))
    assert sum(len(one.get("x", "")) for one in events(recording, "x")) <= 1 << 18


@pytest.mark.parametrize("what", ["removed", "a pipe", "a folder"])
def test_a_script_may_do_anything_to_the_file_of_its_output(tmp_path: Path, what: str) -> None:
    run = tmp_path / "run"
    then = {"removed": "", "a pipe": "os.mkfifo(log)", "a folder": "os.mkdir(log)"}[what]
    script(tmp_path, f"import os; log = {str(run / OUTPUT)!r}; os.remove(log); {then}", "train.py")
    recording = observed(python("train.py"), tmp_path, run)
    assert (recording.exit_status, recording.output_tail) == (0, "")


def test_a_report_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "r.json").open("wb") as file:
        file.truncate(store.LARGEST + 1)  # takes nothing of the disk
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TrainperfError, match="larger than 1024 MiB"):
        store.load(tmp_path / "r.json")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_sources_that_are_none_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    with (tmp_path / "large.py").open("wb") as file:
        file.truncate(editing.LARGEST + 1)
    for name in ("pipe.py", "large.py"):
        with pytest.raises(OSError, match=r"regular file|larger than 64 MiB"):
            editing.default_reader(str(tmp_path / name))


def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert bounded.read(tmp_path / "file", 10) == b"x" * 10
    for path in (tmp_path / "file", "/proc/self/status"):  # which tells no size
        with pytest.raises(OSError, match="larger"):
            bounded.read(path, 9)
