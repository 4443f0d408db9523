"""A change, whatever form it has, becomes the run that has it, and nothing of the user's moves."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trainperf.changes import Change, Repository, changed_run, with_argument
from trainperf.errors import TrainperfError
from trainperf.model import Run

SCRIPT = "import helper\nlr = 0.1\n"
DIFF = "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n import helper\n-lr = 0.1\n+lr = 0.2\n"
NEW = (
    "diff --git a/new.py b/new.py\nnew file mode 100644\n"
    "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x = 1\n"
)


def git(folder: Path, *words: str, fails: bool = False) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(("git", *who, *words), cwd=folder, capture_output=True, text=True)
    assert bool(done.returncode) is fails, done.stderr
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with two commits: `train.py` and the files beside it were others before."""
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    for name, text in {
        "train.py": "lr = 0.5\n",
        "helper.py": "x = 0\n",
        "gone.py": "x = 0\n",
        "conf.toml": "lr = 0.5\n",
        "README.md": "before\n",
        "package/__init__.py": "",
    }.items():
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    (folder / "train.py").write_text(SCRIPT)
    (folder / "conf.toml").write_text("lr = 0.1\n")
    (folder / "README.md").write_text("now\n")
    (folder / "gone.py").unlink()
    (folder / "added.py").write_text("x = 2\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "two")
    return folder


@pytest.fixture
def run(project: Path) -> Run:
    """The script, its folder not covered by a view."""
    return Run((sys.executable, "train.py", "--lr", "0.1"), str(project), "train.py")


def state(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def written(folder: Path, text: str, name: str = "change.diff") -> str:
    path = folder.parent / name
    path.write_text(text)
    return str(path)


def made(change: Change, run: Run) -> Run:
    return changed_run(change, run, Path(run.cwd).parent / "runs")[0]


# --------------------------------------------------------------- diffs


@pytest.mark.parametrize(
    "diff",
    [
        DIFF,
        DIFF.replace("a/", "").replace("b/", ""),
        DIFF.replace("train.py", "project/train.py")
        .replace("a/project", "a")
        .replace("b/project", "b"),
    ],
    ids=["as git makes it", "without prefixes", "its own way"],
)
def test_a_diff_runs_in_place_of_the_file(project, run, diff):
    before = state(project)
    found = made(Change(diffs=(written(project, diff),)), run)
    assert found == replace(run, sources={str(project / "train.py"): b"import helper\nlr = 0.2\n"})
    assert state(project) == before


def test_the_second_diff_goes_on_top_of_the_first(project, run):
    more = DIFF.replace("0.2", "0.3").replace("0.1", "0.2")
    diffs = (written(project, DIFF), written(project, more, "more.diff"))
    assert made(Change(diffs=diffs), run).sources == {
        str(project / "train.py"): b"import helper\nlr = 0.3\n"
    }


@pytest.mark.parametrize(
    ("diff", "says"),
    [
        ("no diff\n", "there is no diff in"),
        (DIFF.replace("-lr = 0.1", "-lr = 0.7"), "does not apply: train.py, line 1"),
        (DIFF.replace("train.py", "nowhere.py"), "does not apply: nowhere.py"),
        (DIFF.replace("train.py", "../train.py"), "there is no diff in"),
    ],
)
def test_a_diff_that_does_not_apply_is_said_with_its_place(project, run, diff, says):
    before = state(project)
    with pytest.raises(TrainperfError, match=says):
        made(Change(diffs=(written(project, diff),)), run)
    assert state(project) == before


def test_a_diff_that_is_made_already_says_how_the_tree_is_proved(project, run):
    (project / "train.py").write_text(SCRIPT.replace("0.1", "0.2"))
    with pytest.raises(TrainperfError, match="hold it already") as raised:
        made(Change(diffs=(written(project, DIFF),)), run)
    assert "check --against HEAD" in raised.value.hint


# --------------------------------------------------------------- files that are new, or no source


def test_in_a_view_any_file_is_laid_in(project, run):
    covered = replace(run, guarded=(str(project),))
    found = made(Change(rev="HEAD~1"), covered)
    assert found.sources == {str(project / "train.py"): b"lr = 0.5\n"}
    assert found.files == {
        str(project / "conf.toml"): b"lr = 0.5\n",
        str(project / "README.md"): b"before\n",
        str(project / "gone.py"): b"x = 0\n",
        str(project / "added.py"): None,
    }


def test_without_a_view_a_new_module_is_put_on_the_path_of_imports(project, run):
    found = made(Change(diffs=(written(project, NEW),)), run)
    place = Path(found.env["PYTHONPATH"].split(":")[0])
    assert (place / "new.py").read_text() == "x = 1\n"
    assert not (project / "new.py").exists()


def test_without_a_view_a_new_module_in_a_folder_that_stands_is_refused(project, run):
    diff = NEW.replace("new.py", "package/new.py")
    with pytest.raises(TrainperfError, match=r"package/new\.py is new"):
        made(Change(diffs=(written(project, diff),)), run)


def test_without_a_view_settings_that_no_word_names_are_refused(project, run):
    with pytest.raises(TrainperfError, match=r"conf\.toml cannot be given"):
        made(Change(rev="HEAD~1"), run)


def test_another_file_stands_in_the_place_of_the_script(project, run):
    (project / "other.py").write_text("lr = 0.9\n")
    found = made(Change(file="other.py"), run)
    assert found == replace(run, sources={str(project / "train.py"): b"lr = 0.9\n"})


@pytest.mark.parametrize("text", [None, "lr = \n"])
def test_another_file_that_cannot_be_run_is_refused(project, run, text):
    if text is not None:
        (project / "other.py").write_text(text)
    with pytest.raises(TrainperfError, match=r"--file other\.py cannot be run"):
        made(Change(file="other.py"), run)


# --------------------------------------------------------------- revisions


def test_a_revision_is_what_differs_from_the_tree_as_it_stands(project):
    (project / "helper.py").write_text("x = 5\n")  # in no commit
    (project / "unknown.py").write_text("x = 6\n")  # git does not know it
    (project / "train.py").chmod(0o755)  # which changes nothing
    found = Repository.around(str(project / "package")).contents("HEAD")
    assert found == {str(project / "helper.py"): b"x = 0\n"}


def test_nothing_of_the_repository_is_touched(project):
    later = (project / "helper.py").stat().st_mtime + 5
    os.utime(project / "helper.py", (later, later))  # the index is out of date, and tells it
    before = state(project)
    repository = Repository.around(str(project))
    assert repository.contents("HEAD~1")
    assert not repository.contents("HEAD")
    assert state(project) == before


def test_the_branch_began_where_it_left_the_default_one(project):
    start = git(project, "rev-parse", "HEAD")
    git(project, "checkout", "-qb", "work")
    (project / "train.py").write_text("lr = 3\n")
    git(project, "commit", "-qam", "three")
    repository = Repository.around(str(project))
    assert repository.fork() == start
    git(project, "branch", "-m", "main", "trunk")
    with pytest.raises(TrainperfError, match="the default one"):
        repository.fork()


def test_a_bisection_under_way_is_known(project):
    repository = Repository.around(str(project))
    assert not repository.bisecting()
    git(project, "bisect", "start")
    assert repository.bisecting()


@pytest.mark.parametrize("rev", ["nope", "--help", "", "HEAD:train.py"])
def test_a_revision_that_is_not_there_is_said(project, rev):
    with pytest.raises(TrainperfError, match="there is no revision"):
        Repository.around(str(project)).contents(rev)


def test_an_index_with_a_merge_in_it_is_said(project):
    git(project, "checkout", "-qb", "other", "HEAD~1")
    (project / "train.py").write_text("lr = 7\n")
    git(project, "commit", "-qam", "other")
    git(project, "merge", "main", fails=True)
    with pytest.raises(TrainperfError, match=r"train\.py is not merged yet"):
        Repository.around(str(project)).contents("HEAD")


# --------------------------------------------------------------- arguments, variables, interpreters

PLAIN = ("python", "train.py")
KNOWN = 'parser.add_argument("--batch_size", "-b")\nparser.add_argument("--amp")'


@pytest.mark.parametrize(
    ("command", "setting", "source", "gives"),
    [
        (PLAIN, "lr=0.1", "", ("--lr=0.1",)),
        (PLAIN, "--lr=0.1", "", ("--lr=0.1",)),
        (PLAIN, "lr=a=b", "", ("--lr=a=b",)),
        (PLAIN, "lr=-1", "", ("--lr=-1",)),
        (PLAIN, "batch-size=64", KNOWN, ("--batch_size=64",)),
        (PLAIN, "b=64", KNOWN, ("-b", "64")),
        (PLAIN, "amp", KNOWN, ("--amp",)),
        (PLAIN, "opt.lr=0.1", "import hydra\n", ("opt.lr=0.1",)),
        ((*PLAIN, "--lr", "1", "x"), "lr=2", "", ("--lr", "2", "x")),
        ((*PLAIN, "--batch-size=1", "x"), "batch_size=2", KNOWN, ("--batch-size=2", "x")),
        ((*PLAIN, "--lr", "1", "--lr", "3"), "lr=2", "", ("--lr", "1", "--lr", "2")),
        ((*PLAIN, "opt.lr=1", "+seed=3"), "seed=2", "import hydra\n", ("opt.lr=1", "+seed=2")),
        ((*PLAIN, "--amp"), "amp", KNOWN, ("--amp",)),
    ],
)
def test_an_argument_is_set_as_the_script_takes_it(command, setting, source, gives):
    assert with_argument(command, setting, source) == (*PLAIN, *gives)


def test_what_is_given_together_is_one_change(project, run):
    change = Change(
        diffs=(written(project, DIFF),), arguments=("lr=0.3",), environment=("X=1", "Y=a=b")
    )
    found = made(change, run)
    assert found.command == (sys.executable, "train.py", "--lr", "0.3")
    assert found.env == {"X": "1", "Y": "a=b"}
    assert found.sources


def test_a_variable_without_a_value_is_refused(run):
    with pytest.raises(TrainperfError, match="--env X: a value is missing"):
        made(Change(environment=("X",)), run)


def test_an_interpreter_stands_in_the_place_of_ours(run):
    assert made(Change(python="sh"), run).command[0].endswith("/sh")
    with pytest.raises(TrainperfError, match="there is no interpreter nope"):
        made(Change(python="nope"), run)
    with pytest.raises(TrainperfError, match="no place in a command of torchrun"):
        made(Change(python="sh"), replace(run, command=("torchrun", "train.py")))
