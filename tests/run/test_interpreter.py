"""The Python that runs the script is that of the user's environment."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from trainperf.commands import session
from trainperf.errors import TrainperfError
from trainperf.run.interpreter import Interpreter, interpreter_for

TORCH = "import torch\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in; trainperf's own environment has no framework."""
    monkeypatch.setattr("trainperf.run.interpreter.util.find_spec", lambda name: None)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(TORCH)
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_of_ours(monkeypatch):
    """The Python of these environments is ours: it would find what we have."""
    monkeypatch.setattr(
        "trainperf.run.interpreter._said", lambda python, *words: said(python, words)
    )


def said(python: str, words: tuple[str, ...]) -> str:
    if "-P" in words:
        return "False"
    return subprocess.run((python, *words), capture_output=True, text=True).stdout


def environment(path: Path, *packages: str, python: str | None = None) -> Path:
    """An environment whose Python is ours; the packages are there and empty."""
    (path / "bin").mkdir(parents=True)
    own = path / "bin" / "python"
    if python is None:
        own.symlink_to(sys.executable)
    else:
        own.write_text(f"#!/bin/sh\n{python}\n")
        own.chmod(0o755)
    for name in packages:
        (path / "lib" / "python3.12" / "site-packages" / name).mkdir(parents=True)
    return path


def taken(place, given=None, **variables):
    cwd = place / "work"
    chosen, lacking = interpreter_for(cwd / "train.py", given, cwd, variables)
    return chosen, lacking


def test_the_active_environment_comes_before_one_that_lies_about(place):
    active = environment(place / "active", "torch")
    environment(place / "conda", "torch")
    environment(place / "work" / ".venv", "torch")
    chosen, lacking = taken(place, VIRTUAL_ENV=str(active), CONDA_PREFIX=str(place / "conda"))
    assert (chosen.path, chosen.why) == (str(active / "bin" / "python"), "VIRTUAL_ENV names it")
    assert lacking == ""
    assert taken(place, CONDA_PREFIX=str(place / "conda"))[0].why == "CONDA_PREFIX names it"
    assert taken(place)[0].why == "the .venv beside the script"


def test_one_without_the_framework_gives_way_to_one_that_has_it(place):
    active = environment(place / "active", "numpy")
    environment(place / "work" / ".venv", "torch")
    chosen, lacking = taken(place, VIRTUAL_ENV=str(active))
    assert chosen.path == str(place / "work" / ".venv" / "bin" / "python")
    assert chosen.why == f"the .venv beside the script; {active}/bin/python has no torch"
    assert lacking == ""


def test_where_none_has_it_the_first_is_taken_and_that_is_said(place):
    active = environment(place / "active")
    chosen, lacking = taken(place, VIRTUAL_ENV=str(active))
    assert chosen.path == str(active / "bin" / "python")
    assert f"has no torch; nor has {sys.executable}: --python PATH" in lacking


def test_what_was_asked_for_is_taken_and_the_others_that_have_it_are_named(place):
    bare, full = environment(place / "bare"), environment(place / "full", "torch")
    for given in (bare, bare / "bin" / "python"):
        chosen, lacking = taken(place, given, VIRTUAL_ENV=str(full))
        assert (chosen.path, chosen.why) == (str(bare / "bin" / "python"), "as you asked")
        assert f"{full}/bin/python has: --python PATH" in lacking


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("echo 3 10", "is Python 3.10"),
        ("echo no", "is no Python that runs"),
        (None, "there is no interpreter"),
    ],
)
def test_what_cannot_be_observed_is_refused_before_anything_runs(place, python, message):
    if python is not None:
        environment(place / "work" / "other", python=python)
    with pytest.raises(TrainperfError, match=message):
        taken(place, Path("other"))


def test_a_target_says_who_runs_it_and_why(place, monkeypatch):
    active = environment(place / "active", "torch")
    monkeypatch.setenv("VIRTUAL_ENV", str(active))
    made = session.target(None, ("train.py", "--epochs", "3"), place / "work")
    assert made.command == (str(active / "bin" / "python"), "train.py", "--epochs", "3")
    assert made.notes == (f"run by {active}/bin/python: VIRTUAL_ENV names it",)
    module = session.target("package.train", (), place / "work", python=active)
    assert module.command == (str(active / "bin" / "python"), "-m", "package.train")
    with pytest.raises(TrainperfError, match="no place before `-- torchrun`"):
        session.target(None, ("--", "torchrun", "x"), place / "work", python=active)


def test_what_a_pth_file_names_is_found_by_asking(tmp_path, monkeypatch):
    monkeypatch.undo()
    venv.create(tmp_path / "env", with_pip=False)
    (tmp_path / "elsewhere" / "torch").mkdir(parents=True)
    (tmp_path / "elsewhere" / "torch" / "__init__.py").write_text("raise SystemExit('not run')")
    (packages,) = (tmp_path / "env").glob("lib/python3*/site-packages")
    (packages / "base.pth").write_text(str(tmp_path / "elsewhere"))
    one = Interpreter(str(tmp_path / "env" / "bin" / "python"), "as you asked")
    assert [one.has(name) for name in ("torch", "tensorflow")] == [True, False]


@pytest.mark.script
def test_what_observes_needs_nothing_but_the_standard_library(tmp_path):
    """A script in an environment without any package is run to its end, and observed."""
    import json

    venv.create(tmp_path / "bare", with_pip=False)
    script = tmp_path / "train.py"
    script.write_text("import sys, time\ntime.sleep(0.2)\nprint(sys.prefix)\n")
    report = tmp_path / "report.json"
    words = ("--python", "bare", "--quiet", "--json", str(report), str(script))
    done = subprocess.run(
        (sys.executable, "-m", "trainperf", "diagnose", *words),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert done.returncode == 2, done.stderr
    told = json.loads(report.read_text())
    assert told["ending"] == "finished"
    assert "the script never imported a framework" in told["verdict"]["text"], "it was seen"
    assert str(tmp_path / "bare") in "".join(told["output_tail"])
