import sys
from dataclasses import replace

import pytest

from reporters.samples import INPUT_BOUND
from trainperf.errors import TrainperfError
from trainperf.model import Ending
from trainperf.session import (
    _new_folder,
    check_script,
    exit_status,
    latest,
    target,
    write_outputs,
)
from trainperf.settings import Settings


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
    "book.ipynb": (b"{}", "notebook"),
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


def test_a_missing_script_is_answered_with_those_that_are_there(tmp_path):
    (tmp_path / "main.py").write_text("")
    with pytest.raises(TrainperfError) as caught:
        check_script(tmp_path / "mian.py")
    assert "main.py" in caught.value.hint
    with pytest.raises(TrainperfError, match="no such file"):
        check_script(tmp_path / "no" / "such" / "folder.py")


def test_checking_a_script_does_not_run_it(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    check_script(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (Ending.MEASURED, 0),
        (Ending.FINISHED, 0),
        (Ending.OUT_OF_BUDGET, 0),
        (Ending.FAILED, 3),
        (Ending.SIGNALLED, 3),
        (Ending.STALLED, 3),
        (Ending.INTERRUPTED, 130),
    ],
)
def test_the_exit_status_tells_how_the_run_ended(ending, status):
    assert exit_status(replace(INPUT_BOUND, ending=ending), Settings()) == status


def test_a_run_without_a_loop_or_without_a_step_ends_with_2():
    assert exit_status(replace(INPUT_BOUND, loop=None), Settings()) == 2
    nothing = replace(INPUT_BOUND.times, real_s=None)
    assert exit_status(replace(INPUT_BOUND, times=nothing), Settings()) == 2
    failed = replace(INPUT_BOUND, loop=None, ending=Ending.FAILED)
    assert exit_status(failed, Settings()) == 3


@pytest.mark.parametrize(
    ("fail_on", "status"), [("none", 0), ("any", 1), (1.2, 1), (3.2, 1), (3.3, 0)]
)
def test_fail_on_looks_at_the_findings(fail_on, status):
    assert exit_status(INPUT_BOUND, Settings(fail_on=fail_on)) == status


def test_fail_on_any_is_content_without_findings():
    assert exit_status(replace(INPUT_BOUND, findings=()), Settings(fail_on="any")) == 0


def test_each_run_has_a_folder_of_its_own(tmp_path):
    settings = Settings(output_dir=tmp_path / "runs")
    folders = {_new_folder(settings, label) for label in ["train.py"] * 3}
    assert len(folders) == 3
    odd = _new_folder(settings, "sh ../we ird/größe$(x).sh")
    assert odd.parent == tmp_path / "runs"
    assert odd.is_dir()


def test_the_latest_run_is_found(tmp_path):
    settings = Settings(output_dir=tmp_path)
    with pytest.raises(TrainperfError, match="no run is kept"):
        latest(settings)
    folder = tmp_path / "20260101-000000-train.py"
    folder.mkdir()
    (folder / "diagnosis.json").write_text("{}")
    assert latest(settings) == folder / "diagnosis.json"


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
