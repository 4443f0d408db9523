import json
import subprocess
import sys

import pytest
from rich.console import Console

from recordings import recording
from reporters.samples import INPUT_BOUND
from trainperf import diagnose, store
from trainperf.commands import session
from trainperf.commands.run_folders import new_folder
from trainperf.commands.session import Target, _Shown, target
from trainperf.errors import TrainperfError
from trainperf.model import Run, TraceFile
from trainperf.settings import Settings


def test_a_notebook_runs_in_its_own_folder_and_says_what_is_left_out(tmp_path):
    (tmp_path / "sub").mkdir()
    cells = [{"cell_type": "code", "source": "%%bash\nls"}, {"cell_type": "code", "source": "!ls"}]
    (tmp_path / "sub" / "a.ipynb").write_text(json.dumps({"cells": cells}))
    found = target(None, ("sub/a.ipynb", "--epochs", "3"), tmp_path)
    assert found.command[1:] == ("a.ipynb", "--epochs", "3")
    assert (found.label, found.cwd) == ("sub/a.ipynb", tmp_path / "sub")
    assert found.notes == ("2 commands to IPython left out: `%%bash` (cell 1), `!ls` (cell 2)",)


def test_each_run_has_a_folder_of_its_own(tmp_path):
    settings = Settings(output_dir=tmp_path / "runs")
    folders = {new_folder(settings, label) for label in ["train.py"] * 3}
    assert len(folders) == 3
    odd = new_folder(settings, "sh ../we ird/größe$(x).sh")
    assert odd.parent == tmp_path / "runs"
    assert odd.is_dir()


def test_what_was_asked_for_reaches_the_diagnosis(tmp_path, monkeypatch):
    seen = []

    def stop(request, on_event):
        seen.append(request)
        raise TrainperfError("enough")

    monkeypatch.setattr(session, "run_diagnosis", stop)
    changed = {"trials": False, "sequential": True, "allow_semantic": True, "measure_s": 9.0}
    changed |= {"only": ("tf_cache",), "trace": tmp_path / "t.json"}
    for settings in (Settings(output_dir=tmp_path), Settings(output_dir=tmp_path, **changed)):
        with pytest.raises(TrainperfError, match="enough"):
            session.run(Target(("true",), "true", tmp_path), settings, Console(quiet=True))
    one, other = seen
    assert (one.trials, one.sequential, one.allow_semantic) == (True, False, False)
    assert (other.trials, other.sequential, other.allow_semantic) == (False, True, True)
    assert (one.only, other.only) == ((), ("tf_cache",))
    assert (one.run.measure_s, other.run.measure_s) == (None, 9.0)
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


BEFORE = """
import pathlib
import sys
import trainperf.diagnose
from trainperf.commands.cli import main
from trainperf.run import launch

def start(*_):
    print(*sys.modules)
    sys.exit()

launch.start = start
trainperf.diagnose.NVIDIA = pathlib.Path("no driver")
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


def test_who_is_on_a_gpu_is_asked_before_the_script_is(tmp_path, monkeypatch):
    done = []

    def launched(*_):
        done.append("launch")
        raise TrainperfError("no script")

    monkeypatch.setattr(diagnose, "launch", launched)
    monkeypatch.setattr(diagnose.Request, "inspect", lambda _: done.append("look"))
    request = diagnose.Request(Run(("python", "train.py"), str(tmp_path), "train.py"), tmp_path)
    for driver, order in ((tmp_path, ["look", "launch"]), (tmp_path / "none", ["launch"])):
        monkeypatch.setattr(diagnose, "NVIDIA", driver)
        done.clear()
        with pytest.raises(TrainperfError):
            diagnose.diagnose(request, print)
        assert done == order


@pytest.mark.parametrize(
    ("typed", "to_type"),
    [
        ("torchrun --nproc_per_node 2 train.py", "-- torchrun --nproc_per_node 2 train.py"),
        ("accelerate launch train.py", "-- accelerate launch train.py"),
        ("python train.py --epochs 3", "diagnose train.py --epochs 3"),
        ("run.sh 3", "diagnose -- bash run.sh 3"),
        ("project", "diagnose project/train.py"),
        ("experiments/test", "check the path"),
    ],
)
def test_what_is_no_script_gets_the_command_to_type(tmp_path, typed, to_type):
    (tmp_path / "run.sh").write_text("torchrun train.py\n")
    (tmp_path / "project").mkdir()
    for name in ("data.py", "train.py"):
        (tmp_path / "project" / name).touch()
    with pytest.raises(TrainperfError) as raised:
        session.target(None, tuple(typed.split()), tmp_path)
    assert raised.value.hint.endswith(to_type)
