import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from rich.console import Console

from recordings import recording
from reporters.samples import INPUT_BOUND
from trainperf import store
from trainperf.commands import run_folders, session
from trainperf.commands.run_folders import find, new_folder, write_outputs
from trainperf.commands.session import Target, _Shown, check_script, target
from trainperf.errors import TrainperfError
from trainperf.model import TraceFile
from trainperf.settings import Settings, load_settings


def test_a_script_is_run_by_this_python_with_its_arguments(tmp_path):
    (tmp_path / "train.py").write_text("x = 1\n")
    found = target(None, ("train.py", "--epochs", "3", "--", "-m"), tmp_path)
    assert found.command == (sys.executable, "train.py", "--epochs", "3", "--", "-m")
    assert (found.label, found.cwd) == ("train.py", tmp_path)


def test_a_module_is_run_by_this_python(tmp_path):
    found = target("package.train", ("--lr", "0.1"), tmp_path)
    assert found.command == (sys.executable, "-m", "package.train", "--lr", "0.1")
    assert found.label == "-m package.train"


def test_a_command_after_two_dashes_is_run_as_it_is(tmp_path):
    found = target(None, ("--", "torchrun", "--nproc_per_node", "2", "train.py"), tmp_path)
    assert found.command == ("torchrun", "--nproc_per_node", "2", "train.py")


@pytest.mark.parametrize("command", [(), ("--",)])
def test_nothing_to_run_is_refused_with_an_example(tmp_path, command):
    with pytest.raises(TrainperfError) as caught:
        target(None, command, tmp_path)
    assert "trainperf diagnose" in caught.value.hint
    assert caught.value.exit_code == 2


FINE = {
    "plain.py": b"print('x')\n",
    "no_newline.py": b"print('x')",
    "windows.py": b"\xef\xbb\xbfprint('x')\r\n",
    "latin.py": b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
    "future.py": b"from __future__ import annotations\nx: int = 1\n",
    "empty.py": b"",
    "train": b"print('no suffix')\n",
}


@pytest.mark.parametrize("name", FINE)
def test_what_python_runs_is_let_through(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(FINE[name])
    check_script(path)


def test_a_folder_with_a_main_file_is_let_through(tmp_path):
    (tmp_path / "__main__.py").write_text("")
    check_script(tmp_path)


REFUSED = {
    "two.py": (b"x = (\n", "two.py, line 1"),
    "print.py": (b"print 'python 2'\n", "Missing parentheses"),
    "tabs.py": (b"if x:\n\ty = 1\n        z = 2\n", "tabs.py"),
    "bytes.py": (b"x = '\xff'\n", "bytes.py"),
    "book.ipynb": (b"{}", "not a notebook"),
    "blank.ipynb": (b'{"cells": []}', "no cell with code"),
    "cell.ipynb": (
        b'{"cells": [{"cell_type": "code", "source": ["!ls\\n", "x = ("]}]}',
        "cell.ipynb, cell 1, line 2 is not valid Python: '(' was never closed",
    ),
    "future.ipynb": (
        json.dumps(
            {
                "cells": [
                    {"cell_type": "code", "source": "x = 1"},
                    {"cell_type": "code", "source": "\nfrom __future__ import annotations"},
                ]
            }
        ).encode(),
        "cell 2, line 2 is not valid Python: from __future__ imports must occur at the beginning",
    ),
    "await.ipynb": (
        b'{"cells": [{"cell_type": "code", "source": "await f()"}]}',
        "cell 1, line 1: a script cannot await outside of a function",
    ),
    "null.py": (b"\x00", "null.py"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_python_could_not_run_is_refused(tmp_path, name):
    content, says = REFUSED[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TrainperfError) as caught:
        check_script(path)
    assert says in str(caught.value)
    assert caught.value.hint


def test_a_notebook_runs_in_its_own_folder_and_says_what_is_left_out(tmp_path):
    (tmp_path / "sub").mkdir()
    cells = [{"cell_type": "code", "source": "%%bash\nls"}, {"cell_type": "code", "source": "!ls"}]
    (tmp_path / "sub" / "a.ipynb").write_text(json.dumps({"cells": cells}))
    found = target(None, ("sub/a.ipynb", "--epochs", "3"), tmp_path)
    assert found.command[1:] == ("a.ipynb", "--epochs", "3")
    assert (found.label, found.cwd) == ("sub/a.ipynb", tmp_path / "sub")
    assert found.notes == ("2 commands to IPython left out: `%%bash` (cell 1), `!ls` (cell 2)",)


def test_a_missing_script_is_answered_with_those_that_are_there(tmp_path):
    (tmp_path / "main.py").write_text("")
    with pytest.raises(TrainperfError) as caught:
        check_script(tmp_path / "mian.py")
    assert "main.py" in caught.value.hint
    with pytest.raises(TrainperfError, match=r"there is no folder .*such"):
        check_script(tmp_path / "no" / "such" / "folder.py")


def test_a_run_is_named_as_show_finds_it_without_flags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    usual = load_settings(tmp_path, os.environ, {}).output_dir
    assert run_folders.saved_name(usual / "run") == "run"
    other = tmp_path / "elsewhere" / "run"
    assert run_folders.saved_name(other) == str(other)


def test_checking_a_script_does_not_run_it(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    check_script(path)
    assert not (tmp_path / "ran").exists()


def test_each_run_has_a_folder_of_its_own(tmp_path):
    settings = Settings(output_dir=tmp_path / "runs")
    folders = {new_folder(settings, label) for label in ["train.py"] * 3}
    assert len(folders) == 3
    odd = new_folder(settings, "sh ../we ird/größe$(x).sh")
    assert odd.parent == tmp_path / "runs"
    assert odd.is_dir()


def test_runs_started_in_the_same_second_do_not_collide(tmp_path):
    settings = Settings(output_dir=tmp_path / "new" / "runs")
    with ThreadPoolExecutor(16) as pool:
        folders = list(pool.map(lambda _: new_folder(settings, "train.py"), range(32)))
    assert len(set(folders)) == 32


def test_a_folder_for_runs_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainperfError, match="cannot write to"):
        new_folder(Settings(output_dir=tmp_path / "file"), "train.py")
    with pytest.raises(TrainperfError, match="cannot write to"):
        new_folder(Settings(output_dir=tmp_path / "file" / "runs"), "train.py")


def test_what_was_asked_for_reaches_the_diagnosis(tmp_path, monkeypatch):
    seen = []

    def stop(request, on_event):
        seen.append(request)
        raise TrainperfError("enough")

    monkeypatch.setattr(session, "run_diagnosis", stop)
    changed = {"trials": False, "sequential": True, "allow_semantic": True, "steps": 9}
    changed |= {"only": ("tf_cache",), "trace": tmp_path / "t.json"}
    for settings in (Settings(output_dir=tmp_path), Settings(output_dir=tmp_path, **changed)):
        with pytest.raises(TrainperfError, match="enough"):
            session.run(Target(("true",), "true", tmp_path), settings, Console(quiet=True))
    one, other = seen
    assert (one.trials, one.sequential, one.allow_semantic) == (True, False, False)
    assert (other.trials, other.sequential, other.allow_semantic) == (False, True, True)
    assert (one.only, other.only) == ((), ("tf_cache",))
    assert (one.run.steps, other.run.steps) == (None, 9)
    assert (one.run.trace, other.run.trace) == (False, True)


def test_the_trace_is_in_the_report_that_is_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "run_diagnosis", lambda *_: (INPUT_BOUND, recording()))
    settings = Settings(output_dir=tmp_path / "runs", trace=tmp_path / "t.json")
    diagnosis, folder, unsaved = session.run(
        Target(("true",), "true", tmp_path), settings, Console(quiet=True)
    )
    assert unsaved is None
    file = str(tmp_path / "t.json")
    assert diagnosis.trace == TraceFile(file, reason="no training loop was seen")
    assert store.load(folder / store.DIAGNOSIS_FILE).trace == diagnosis.trace


class Told:
    """Notes what it is told, in place of the progress on a terminal."""

    def __init__(self):
        self.calls = []

    def phase(self, text, expected_s=None):
        self.calls.append(("phase", text, expected_s))

    def say(self, text):
        self.calls.append(("say", text))

    def advance(self, fraction):
        self.calls.append(("advance", fraction))


def test_trials_are_shown_as_they_go():
    told = Told()
    show = _Shown(told, "train.py")
    for text, fraction, expected_s in [
        ("starting 3 legs", None, 20.0),
        ("starting 3 legs", 0.5, 20.0),
        ("trying tf_cache", None, 60.0),
        ("trying tf_cache: 1.8", 0.1, None),
    ]:
        show({"e": "trial", "text": text, "fraction": fraction, "expected_s": expected_s})
    assert told.calls == [
        ("phase", "train.py: starting 3 legs", 20.0),
        ("say", "train.py: starting 3 legs"),
        ("advance", 0.5),
        ("phase", "train.py: trying tf_cache", 60.0),
        ("say", "train.py: trying tf_cache: 1.8"),
        ("advance", 0.1),
    ]


def test_the_latest_run_is_found(tmp_path):
    settings = Settings(output_dir=tmp_path)
    with pytest.raises(TrainperfError, match="no run is kept"):
        find(None, settings)
    folder = tmp_path / "20260101-000000-train.py"
    folder.mkdir()
    (folder / "diagnosis.json").write_text("{}")
    assert find(None, settings) == folder / "diagnosis.json"


def test_outputs_are_written_where_they_were_asked_for(tmp_path):
    settings = Settings(json=tmp_path / "d.json", patch=tmp_path / "d.patch")
    write_outputs(INPUT_BOUND, settings)
    assert (tmp_path / "d.json").read_text().startswith("{")
    assert (tmp_path / "d.patch").read_text() == INPUT_BOUND.patch.diff
    write_outputs(replace(INPUT_BOUND, patch=None), settings)
    assert (tmp_path / "d.patch").read_text() == ""


def test_an_output_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(TrainperfError, match="cannot"):
        write_outputs(INPUT_BOUND, Settings(patch=tmp_path / "no" / "d.patch"))


BEFORE = """
import subprocess
import sys
from trainperf.commands.cli import main
from trainperf.run import launch

def start(*_):
    print(*sys.modules)
    sys.exit()

launch.start = start
sys.argv = ["trainperf", "diagnose", "--output-dir", "runs", "train.py"]
main()
"""


def test_nothing_that_judges_a_run_is_imported_before_the_script_starts(tmp_path):
    (tmp_path / "train.py").write_text("x = 1\n")
    words = [sys.executable, "-c", BEFORE]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    before = {tuple(name.split(".")[:2]) for name in done.stdout.split()}
    assert ("trainperf", "run") in before
    judging = "evidence fixes lint machine model patch proof rewrite trial verdict whole_training"
    assert not before & {("trainperf", package) for package in judging.split()}
    assert not {package for package, *_ in before} & {"boto3", "jinja2", "pynvml"}
