"""Bad input and faults: a clear error, the right exit status, nothing left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kit.processes import (
    LONG_S,
    diagnose,
    events,
    gone,
    observed,
    python,
    script,
    started,
    strays,
    wait_for,
)
from trainperf import store
from trainperf.evidence.events import choose
from trainperf.model import Diagnosis, Ending

pytestmark = pytest.mark.usefixtures("nothing_left", "children_before")


@pytest.fixture(scope="module")
def children_before():
    """Processes that tests of other files left are theirs."""
    return set(psutil.Process().children(recursive=True))


OURS = re.compile(r"Traceback|trainperf/(\w+/)*\w+\.py")


def saved(cwd: Path) -> Diagnosis:
    (path,) = (cwd / "runs").glob("*/diagnosis.json")
    return store.load(path)


# ------------------------------------------------------------------- what cannot be run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nope.py",), ["nope.py", "no such file", "train.py"]),
        (("broken.py",), ["broken.py", "line 2", "not valid Python", "def step(:"]),
        (("run.sh",), ["run.sh", "not valid Python", "-- bash run.sh"]),
        (("image.png",), ["image.png", "-- COMMAND"]),
        (("notes.ipynb",), ["not a notebook", "nbformat 4"]),
        (("folder",), ["folder", "__main__.py"]),
        (("locked.py",), ["locked.py"]),
        ((), ["which script"]),
        (("--",), ["no command after `--`"]),
        (("--", "not-a-program-at-all"), ["cannot start not-a-program-at-all"]),
        (("--budge", "5s", "train.py"), ["--budge", "--budget"]),
        (("--budget", "soon", "train.py"), ["budget"]),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_next_step(tmp_path, words, says):
    script(tmp_path, "print('ran')", "train.py")
    script(tmp_path, "x = 1\ndef step(:\n", "broken.py")
    script(tmp_path, "if [ -f x ]; then echo y; fi\n", "run.sh")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x00\x00")
    script(tmp_path, "{}", "notes.ipynb")
    (tmp_path / "folder").mkdir()
    (tmp_path / "locked.py").symlink_to("locked.py")
    result = diagnose(tmp_path, *words)
    assert result.returncode == 2
    assert result.stdout == ""
    for text in says:
        assert text in result.stderr
    assert not OURS.search(result.stderr)


# -------------------------------------------------------- scripts that end by themselves


def test_a_script_that_raises_before_it_trains_shows_its_traceback(tmp_path):
    script(tmp_path, "print('reading')\nopen('/data/missing.csv')", "train.py")
    result = diagnose(tmp_path, "train.py")
    assert result.returncode == 3
    assert "FileNotFoundError" in result.stdout
    assert 'train.py", line 2' in result.stdout
    assert not OURS.search(result.stderr)


SIGNALS = "import os, signal; os.kill(os.getpid(), signal.{})"
KILLED = "The script was killed by "


@pytest.mark.parametrize(
    ("source", "status", "says"),
    [
        ("import sys; sys.exit(5)", 5, ""),
        ("import os; os._exit(7)", 7, ""),
        (SIGNALS.format("SIGSEGV"), -11, f"{KILLED}SIGSEGV, a segmentation fault"),
        (SIGNALS.format("SIGKILL"), -9, f"{KILLED}SIGKILL, as the kernel does where memory runs"),
        (SIGNALS.format("SIGUSR1"), -10, f"{KILLED}SIGUSR1, "),
        ("import os; os.abort()", -6, f"{KILLED}SIGABRT, it gave itself up"),
        ("raise KeyboardInterrupt", -2, ""),
    ],
)
def test_a_script_that_ends_badly_is_said_to_have_failed(tmp_path, source, status, says):
    script(tmp_path, source, "train.py")
    result = diagnose(tmp_path, "train.py")
    assert result.returncode == 3
    assert says in " ".join(result.stdout.split())
    diagnosis = saved(tmp_path)
    assert diagnosis.ending is (Ending.SIGNALLED if status < 0 else Ending.FAILED)
    assert diagnosis.loop is None
    recording = store.load_recording(next((tmp_path / "runs").glob("*/recording.json")))
    assert recording.exit_status == status


def test_a_script_that_does_not_train_is_told_what_was_seen(tmp_path):
    script(tmp_path, "print(sum(range(10)))", "train.py")
    result = diagnose(tmp_path, "train.py")
    assert result.returncode == 2
    assert "never imported a framework" in " ".join(result.stdout.split())
    assert saved(tmp_path).ending is Ending.FINISHED


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_an_interpreter_that_ignores_the_observer_is_named_as_the_reason(tmp_path, flag):
    script(tmp_path, "print('trained')", "train.py")
    result = diagnose(tmp_path, "--", sys.executable, flag, "train.py")
    assert result.returncode == 2
    assert "PYTHONPATH" in result.stdout


def test_a_framework_that_cannot_be_imported_is_the_scripts_failure(tmp_path):
    script(tmp_path, "raise ImportError('libcudart.so.12: not found')", "tensorflow/__init__.py")
    script(tmp_path, "import tensorflow as tf", "train.py")
    result = diagnose(tmp_path, "train.py")
    assert result.returncode == 3
    assert "libcudart.so.12: not found" in result.stdout


def test_a_framework_that_is_too_old_is_named(tmp_path):
    script(tmp_path, "__version__ = '2.4.1'", "tensorflow/__init__.py")
    script(tmp_path, "import tensorflow as tf", "train.py")
    result = diagnose(tmp_path, "train.py")
    assert result.returncode == 2
    assert "TensorFlow 2.4.1 is older than" in " ".join(result.stdout.split())


def test_output_that_is_no_text_does_not_harm_the_report(tmp_path):
    source = r"""
    import os, sys
    os.write(1, b"\xff\xfe\x00 [bold]markup[/bold] \x1b[31mred\x1b[2J \x07")
    sys.exit(1)
    """
    script(tmp_path, source, "train.py")
    result = diagnose(tmp_path, "train.py")
    assert result.returncode == 3
    assert "[bold]markup[/bold]" in result.stdout
    assert "\x1b" not in result.stdout


# ------------------------------------------------------------------ scripts that hang


def test_a_script_that_hangs_is_given_up_and_shown(tmp_path):
    source = "import time\nprint('waiting for a lock', flush=True)\ntime.sleep(1000)"
    script(tmp_path, source, "train.py")
    result = diagnose(tmp_path, "--stall", "4s", "train.py")
    assert result.returncode == 3
    assert "waiting for a lock" in result.stdout
    assert saved(tmp_path).ending is Ending.STALLED


def test_a_script_that_ignores_signals_is_stopped_all_the_same(tmp_path):
    source = """
    import signal, time
    for number in (1, 2, 3, 15):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)
    """
    script(tmp_path, source, "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run", stall_s=0.5)
    assert recording.ending is Ending.STALLED


def test_a_script_that_stopped_itself_is_given_up(tmp_path):
    script(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run", stall_s=0.5)
    assert recording.ending is Ending.STALLED


# ---------------------------------------------------------------- processes left behind

FORKS = {
    "a child that outlives the script": """
        import os, time
        if os.fork() == 0:
            time.sleep(1000)
        """,
    "a daemon in a session of its own": """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        os.wait()
        """,
    "a subprocess of another program": """
        import subprocess
        subprocess.Popen(["sleep", "1000"])
        """,
    "workers that wait": """
        import multiprocessing, os, time
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            for _ in range(2):
                context.Process(target=time.sleep, args=(1000,)).start()
            time.sleep(0.3)
            os._exit(0)
        """,
}


@pytest.mark.parametrize("source", FORKS.values(), ids=FORKS.keys())
def test_processes_that_outlive_the_script_are_ended(tmp_path, mark, source):
    script(tmp_path, source, "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run")
    assert recording.ending is Ending.FINISHED
    assert strays(mark) == []


def test_shared_memory_of_a_stopped_script_is_removed(tmp_path):
    source = """
    import time
    from multiprocessing import shared_memory
    memory = shared_memory.SharedMemory(create=True, size=1000)
    print(memory.name, flush=True)
    time.sleep(1000)
    """
    script(tmp_path, source, "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run", stall_s=4.0)
    assert recording.ending is Ending.STALLED
    name = recording.output_tail.split()[0]
    assert name.startswith("psm_")
    assert not (Path("/dev/shm") / name).exists()


def test_a_launcher_cannot_go_on_after_a_run_was_stopped(tmp_path):
    script(tmp_path, "import time\ntime.sleep(1000)", "train.py")
    script(tmp_path, '"$PYTHON" train.py\ntouch after\n', "start.sh")
    observed(
        ("sh", "start.sh"), tmp_path, tmp_path / "run", {"PYTHON": sys.executable}, stall_s=1.0
    )
    assert not (tmp_path / "after").exists()


# -------------------------------------------------------------------- trainperf itself


SLEEPS = """
import subprocess, time
subprocess.Popen(["sleep", "1000"])
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_diagnosis_reports_and_ends_with_130(tmp_path, mark, number):
    script(tmp_path, SLEEPS, "train.py")
    process = started(tmp_path, "--no-trials", "train.py")
    wait_for(tmp_path, "ready")
    process.send_signal(number)
    output, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert output
    assert not OURS.search(errors)
    assert saved(tmp_path).ending is Ending.INTERRUPTED
    assert strays(mark) == []


def test_pressing_ctrl_c_again_and_again_leaves_nothing_behind(tmp_path, mark):
    script(tmp_path, SLEEPS, "train.py")
    process = started(tmp_path, "--no-trials", "train.py")
    wait_for(tmp_path, "ready")
    for _ in range(40):
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    output, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert output
    assert not OURS.search(errors)
    assert strays(mark) == []


def test_nothing_survives_a_kill_9_of_trainperf(tmp_path, mark):
    script(tmp_path, SLEEPS, "train.py")
    process = started(tmp_path, "--no-trials", "train.py")
    wait_for(tmp_path, "ready")
    process.kill()
    process.communicate()
    assert gone(mark)


def test_a_report_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    script(tmp_path, "raise SystemExit('the end')", "train.py")
    result = diagnose(tmp_path, "--json", "/dev/null/x.json", "train.py")
    assert (result.returncode, result.stdout) == (2, "")
    assert "/dev/null" in result.stderr
    assert not OURS.search(result.stderr)


def test_a_folder_for_runs_that_cannot_be_made_is_said_before_the_run(tmp_path):
    script(tmp_path, "open('ran', 'w')", "train.py")
    script(tmp_path, "", "runs")
    result = diagnose(tmp_path, "train.py")
    assert result.returncode == 2
    assert "--output-dir" in result.stderr
    assert not (tmp_path / "ran").exists()


def test_a_full_disk_ends_the_measuring_and_says_so(tmp_path):
    source = """
    import os, sys, time
    from _trainperf_child.process.recorder import Recorder
    own = Recorder(os.path.dirname(os.environ["TRAINPERF_RUN"]))
    while not own.broken:
        own.write("note", text="x" * 1000)
    time.sleep(1000)
    """
    script(tmp_path, source, "train.py")
    limited = ("sh", "-c", f"ulimit -f 40; exec {sys.executable} train.py")
    recording = observed(limited, tmp_path, tmp_path / "run", stall_s=LONG_S)
    assert recording.ending is Ending.MEASURED
    assert recording.ended - recording.started < LONG_S
    assert any("File too large" in event["text"] for event in events(recording, "note"))


def test_a_pipe_that_closes_ends_quietly(tmp_path):
    script(tmp_path, "raise SystemExit('x')", "train.py")
    command = f"{sys.executable} -m trainperf diagnose -q --output-dir runs train.py | head -c 1"
    result = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert result.stderr == ""


# ------------------------------------------------------------------- with TensorFlow

TRAINING = """
import os, signal, subprocess, sys, time
import keras, numpy as np

class At(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == {step}:
            {action}

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
model.compile("sgd", "mse")
x = np.zeros((32000, 8), "float32")
model.fit(x, np.zeros((32000, 4), "float32"), epochs=10, verbose=0, callbacks=[At()])
"""


def training(folder: Path, step: int, action: str) -> None:
    script(folder, TRAINING.format(step=step, action=action), "train.py")


@pytest.mark.script
def test_what_was_measured_before_the_script_raised_is_reported(tmp_path):
    training(tmp_path, 30, "raise ValueError('NaN in the labels')")
    result = diagnose(tmp_path, "train.py")
    assert result.returncode == 3
    assert "NaN in the labels" in result.stdout
    assert 'train.py", line 8' in result.stdout
    assert "trainperf/child" not in result.stdout
    diagnosis = saved(tmp_path)
    assert diagnosis.ending is Ending.FAILED
    assert diagnosis.loop is not None
    assert diagnosis.step_s is not None
    assert diagnosis.real.steps >= 20


@pytest.mark.script
def test_a_loop_that_hangs_is_given_up_with_what_was_measured(tmp_path):
    training(tmp_path, 30, "print('deadlock', flush=True); time.sleep(1000)")
    result = diagnose(tmp_path, "--stall", "4s", "train.py")
    assert result.returncode == 3
    assert "deadlock" in result.stdout
    assert "When it was stopped, the script " in result.stdout
    diagnosis = saved(tmp_path)
    assert diagnosis.ending is Ending.STALLED
    assert diagnosis.real.steps >= 20


@pytest.mark.script
@pytest.mark.parametrize(
    "moment",
    ['"e": "hello"', pytest.param('"p": "real"', marks=pytest.mark.long), '"p": "probes"'],
)
def test_ctrl_c_keeps_what_was_measured(tmp_path, mark, moment, monkeypatch):
    monkeypatch.setenv("TRAINPERF_MEASURE", "2s")
    training(tmp_path, -1, "pass")
    process = started(tmp_path, "--no-trials", "train.py")
    wait_for(tmp_path, moment)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert output
    assert not OURS.search(errors)
    assert strays(mark) == []
    diagnosis = saved(tmp_path)
    assert diagnosis.ending is Ending.INTERRUPTED
    assert (diagnosis.step_s is not None) == ("hello" not in moment)


@pytest.mark.script
def test_a_script_that_forks_while_it_trains_is_measured_all_the_same(tmp_path, mark):
    training(tmp_path, 5, "os.fork() or os._exit(0)")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run", measure_s=1.0, extra_s=1.0)
    assert recording.ending is Ending.MEASURED
    assert choose(recording)


def test_the_machine_is_left_as_it_was(children_before):
    assert set(psutil.Process().children(recursive=True)) <= children_before
