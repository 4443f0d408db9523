"""Files are counted as they are opened to be read, here and in workers."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kit.child import FakeProcess
from trainperf.child.reads import files as read_names
from trainperf.child.reads.files import FileReads


@pytest.fixture
def process(tmp_path: Path) -> FakeProcess:
    (tmp_path / "run").mkdir()
    return FakeProcess({"folder": str(tmp_path / "run"), "leg": None})


@pytest.fixture
def reads(process: FakeProcess) -> FileReads:
    return FileReads(process)


def opened(reads: FileReads, path: Any, mode: str | None = "rb", flags: int = os.O_RDONLY) -> None:
    """Python's audit event of an open."""
    reads._hook()("open", (path, mode, flags))


def summary(reads: FileReads, process: FakeProcess) -> dict[str, Any]:
    reads.close(None)
    return process.record.events[-1]


def test_what_is_written_made_or_a_program_is_not_counted(reads, process):
    reads.begin()
    reads.mark()
    for flags in (os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_RDONLY | os.O_DIRECTORY):
        opened(reads, "/data/a", "wb", flags)
    for path in ("/data/train.py", "/proc/self/io", "/a/site-packages/x/y.json", os.__file__, 3):
        opened(reads, path)
    opened(reads, os.path.join(process.settings["folder"], "run.json"))
    process.off = True  # trainperf itself reads
    opened(reads, "/data/a")

    assert summary(reads, process)["opens"] == 0


def test_an_open_that_makes_no_sense_harms_nobody(reads: FileReads, process: FakeProcess) -> None:
    reads.begin()
    for args in ((), (None, None, None), (object(), "r", 0), ("\0", "r", "x")):
        reads._hook()("open", args)

    assert summary(reads, process)["opens"] == 0


@pytest.mark.parametrize("waited_for", [True, False])
def test_what_a_worker_read_is_counted_once_though_its_parent_inherits_it(
    reads: FileReads, process: FakeProcess, tmp_path: Path, waited_for: bool
) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"x" * 2**22)
    reads.begin()
    reads.mark()
    opened(reads, str(data))  # by this process too, so that its own calls count
    pid = os.fork()
    if not pid:
        try:
            worker = FileReads(process)
            worker.serve(os.getppid())
            opened(worker, str(data))
            data.read_bytes()
            worker._last()
        finally:
            os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | (0 if waited_for else os.WNOWAIT))

    told = summary(reads, process)
    if not waited_for:
        os.waitpid(pid, 0)
    assert told["counted"]
    assert 2**22 <= told["read_bytes"] < 1.5 * 2**22


def test_no_odd_name_changes_what_open_does(tmp_path: Path) -> None:
    code = """
        import os, sys
        from types import SimpleNamespace
        from trainperf.child.reads.files import FileReads

        class Fails:
            def __fspath__(self):
                raise RuntimeError("the user's own")

        class Odd(str):
            def __hash__(self):
                raise ValueError("the user's own")

        odd = os.fsdecode(os.fsencode(sys.argv[1]) + b"/\\xff\\n\\x1b")
        names = [Fails(), Odd(odd), odd, os.fsencode(odd), "", "\\0", "x" * 5000, -1, 10**30, 1.5,
                 None, sys.argv[1], "/dev/stdin", odd + "\\ud800", b"\\xff"]

        def outcomes():
            found = []
            for name in names:
                try:
                    with open(name) as file:
                        found.append(file.read())
                except Exception as error:
                    found.append((type(error), str(error)))
            here = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
            with open(os.open(os.path.basename(odd), os.O_RDONLY, dir_fd=here)) as file:
                found.append(file.read())
            os.close(here)
            return found

        open(odd, "w").write("data")
        before = outcomes()
        process = SimpleNamespace(
            settings={"folder": "/nowhere", "leg": None}, off=False,
            record=SimpleNamespace(write=lambda kind, **fields: print(kind, fields["opens"])),
            failed=lambda what, error: print(what, error))
        reads = FileReads(process)
        reads._workers = lambda: []
        reads.install()
        reads.begin()
        reads.mark()
        assert outcomes() == before
        reads.close(None)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.stderr == ""
    assert ran.stdout.startswith("reads ")


@pytest.mark.parametrize("error", ["RuntimeError", "PermissionError"])
def test_a_hook_of_the_users_that_forbids_others_is_obeyed(tmp_path: Path, error: str) -> None:
    code = """
        import sys
        from types import SimpleNamespace
        from trainperf.child.reads.files import FileReads

        def forbids(event, args):
            if event == "sys.addaudithook":
                raise ERROR("no further hooks")

        sys.addaudithook(forbids)
        reads = FileReads(SimpleNamespace(settings={"folder": "/nowhere", "leg": None}, off=False))
        reads.install()
        reads.begin()
        print(open(sys.argv[1]).read(), reads._files)
    """
    (tmp_path / "a").write_text("data")
    code = textwrap.dedent(code).replace("ERROR", error)
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("data 0\n", "")


# Names of files that C code reads are found where they are kept.


def names(dataset: Any) -> list[str]:
    return read_names.names_of_dataset(dataset)


def files(folder: Path, many: int) -> list[str]:
    paths = [folder / f"{number}.bin" for number in range(many)]
    for path in paths:
        path.write_bytes(b"x" * 10)
    return [str(path) for path in paths]


class Pictures:
    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples
        self.classes = ["cat", "dog"]


def test_the_list_of_a_dataset_gives_names(tmp_path: Path) -> None:
    paths = files(tmp_path, 30)
    dataset = Pictures([(path, 1) for path in paths])
    assert names(SimpleNamespace(dataset=dataset)) == paths  # its list of classes names no files


def test_strings_that_are_no_files_are_no_names(tmp_path: Path) -> None:
    assert names(None) == []
    assert names(SimpleNamespace(dataset=Pictures([str(tmp_path / "gone")]))) == []
    assert names(SimpleNamespace(dataset=Pictures(["s3://bucket/key"]))) == []


def test_a_file_that_is_mapped_is_held(tmp_path: Path) -> None:
    (path,) = files(tmp_path, 1)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        assert path in read_names._held_names("/nowhere")
        assert path not in read_names._held_names(str(tmp_path))  # trainperf's own
    assert path not in read_names._held_names("/nowhere")
