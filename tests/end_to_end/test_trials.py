"""Whole diagnoses with trials: fixes proven on real scripts, and nothing of them left."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import zoo
from kit.legs import states
from kit.processes import LONG_S, patient, reported, script, snapshot, soon, started, strays, tries
from trainperf.run import guarding

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

SEEDS = Path(__file__).parent / "seeds"
EXAMPLES = Path(__file__).parents[2] / "examples"
TRIES = 3
"""A neighbour's burst may hide a gain in one run; it does not hide it in three."""

COMPILER = shutil.which("g++") or shutil.which("clang++")


@dataclass(frozen=True)
class Proven:
    """The fix that a trial must confirm on a script, in its budget, with a gain above `ratio`."""

    script: Path
    fix: str
    options: tuple[str, ...] = ()
    ratio: float = 1.0
    budget: str = "120s"
    launcher: tuple[str, ...] = ()


def _stem(case: Proven) -> str:
    return case.script.stem


PROVEN = [
    Proven(EXAMPLES / "slow_images.py", "tf_map_parallel"),
    Proven(EXAMPLES / "eager_loop.py", "tf_function"),
    Proven(EXAMPLES / "tiny_steps.py", "keras_steps_per_execution"),
    Proven(EXAMPLES / "retracing.py", "tf_retracing"),
    Proven(
        EXAMPLES / "checkpoint_every_batch.py", "keras_callback_per_batch", ("--allow-semantic",)
    ),
    Proven(EXAMPLES / "torch_slow_transform.py", "torch_workers"),
    pytest.param(
        Proven(
            EXAMPLES / "torch_step_logging.py",
            "torch_step_logging",
            ("--allow-semantic",),
            ratio=1.2,
            budget="60s",
        ),
        marks=(pytest.mark.alone, pytest.mark.sentinel),
    ),
    pytest.param(
        Proven(EXAMPLES / "torch_small_kernels.py", "torch_compile", ratio=1.2),
        marks=pytest.mark.skipif(not COMPILER, reason="torch.compile needs g++ on a CPU"),
    ),
    Proven(
        EXAMPLES / "ddp_accumulation.py",
        "torch_ddp_no_sync",
        budget="180s",
        launcher=("--", sys.executable, *zoo.RANKS),
    ),
    Proven(SEEDS / "resnet_pipeline.py", "tf_cache"),
    Proven(SEEDS / "rnn_series.py", "keras_jit_compile"),
]


def command(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "trainperf", *words)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**patient(), "COLUMNS": "100"}
    return subprocess.run(
        command(*words), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def diagnosed(folder: Path, *words: str) -> dict[str, Any]:
    """A report that is written beside the folder, which stays as it is."""
    to = folder.parent / f"of-{folder.name}"
    to.mkdir(exist_ok=True)
    return reported(folder, *words, to=to)


def copied(case: Path, to: Path) -> Path:
    shutil.copytree(case.parent, to, ignore=shutil.ignore_patterns("__pycache__"))
    return to


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", PROVEN, ids=_stem)
def test_a_trial_confirms_the_fix_and_the_fixed_script_does_not_need_it_again(
    case: Proven, tmp_path: Path
) -> None:
    command = (*case.launcher, case.script.name)
    for attempt in tries(case.fix, TRIES):
        folder = copied(case.script, tmp_path / str(attempt))
        options = ("--budget", case.budget, "--only", case.fix, *case.options)
        report = diagnosed(folder, *options, *command)
        kept = [one for one in report["trials"] if one["fix"] == case.fix and one["kept"]]
        stacked = report["stack"]["fixes"] if report["stack"] else ()
        if case.fix in stacked and kept and kept[0]["speedup"] > case.ratio:
            break
    else:
        pytest.fail(f"{case.fix} was not kept: {report['trials']}")
    (trial,) = kept
    assert trial["low"] <= trial["speedup"] <= trial["high"]
    assert trial["low"] > 1
    _the_best_variant_is_written_out(trial, report)
    assert report["stack"]["low"] > 1
    assert report["control"]["pairs"] >= 3
    assert set(report["stack"]["fixes"]) == set(report["patch"]["findings"])
    last = report["stdout"].rstrip().splitlines()[-2:]  # it may be wrapped
    assert [line for line in last if line.startswith("Apply th")], last
    before = (folder / case.script.name).read_bytes()
    fixed = run(folder, "fix", report["run"])
    assert fixed.returncode == 0, fixed.stderr
    after = (folder / case.script.name).read_bytes()
    assert after != before
    compile(after, case.script.name, "exec", dont_inherit=True)
    again = diagnosed(folder, "--no-trials", "--budget", "60s", *command)
    if not trial["variant"]:  # of a number a neighbour's load may have picked another
        assert case.fix not in [one["id"] for one in again["findings"]]


def _the_best_variant_is_written_out(kept: dict[str, Any], report: dict[str, Any]) -> None:
    """Of the ways to make a change each has its trial; the patch and the text show the best."""
    if not kept["variant"]:
        return
    name, number = kept["variant"].split("=")
    tried = [one for one in report["trials"] if one["fix"] == kept["fix"]]
    assert len({one["variant"] for one in tried}) == len(tried) > 1
    assert [one for one in tried if one["kept"]] == [kept]
    assert [one for one in tried if one["speedup"] is None] == []
    assert f"num_{name}={number}" in report["patch"]["diff"]
    (finding,) = [one for one in report["findings"] if one["id"] == kept["fix"]]
    assert f"num_{name}={number}" in finding["snippet"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "path",
    [EXAMPLES / "healthy.py", EXAMPLES / "torch_healthy.py"],
    ids=lambda path: path.stem,
)
def test_nothing_is_kept_on_a_healthy_script(path: Path, tmp_path: Path) -> None:
    precision = ("--ignore", "keras_mixed_precision", "--ignore", "torch_autocast")
    options = ("--budget", "100s", *precision)  # 16 bits pay on some CPUs, and not on others
    report = diagnosed(copied(path, tmp_path / "code"), *options, path.name)
    assert [one for one in report["trials"] if one["kept"]] == []
    assert report["stack"] is None
    assert report["patch"] is None or report["patch"]["diff"] == ""


WRITES = """
import csv, os, shutil
import numpy as np
from tensorflow import keras

shutil.rmtree("logs", ignore_errors=True)
os.mkdir("logs")
with open("logs/begun.txt", "w") as file:
    file.write("again")
with open("history.csv", "a") as file:
    csv.writer(file).writerow(["run", 1])
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "generated.py"), "w") as file:
    file.write("made = 2")

x, y = np.random.rand(4096, 16).astype("float32"), np.random.rand(4096, 1).astype("float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.save("model.keras")
model.fit(
    x, y, batch_size=16, epochs=50, verbose=0,
    callbacks=[keras.callbacks.ModelCheckpoint("best.keras", save_freq=64),
               keras.callbacks.CSVLogger("log.csv", append=True)],
)
model.save("model.keras")
"""


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is measured before the trials."""
    monkeypatch.setenv("TRAINPERF_MEASURE", "2s")
    monkeypatch.setenv("TRAINPERF_EXTRA", "2s")


def busy_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    script(folder, WRITES, "train.py")
    script(folder, "made = 1", "generated.py")
    script(folder / "logs", "old", "events.txt")
    for name in ("model.keras", "best.keras", "log.csv", "history.csv"):
        script(folder, f"the user's own {name}", name)
    found = guarding.probe([str(folder)], tmp_path / "probe", [])
    if not found.folders:
        pytest.skip(found.unguarded[0])
    return folder


@pytest.mark.script
@pytest.mark.sentinel
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("brief")
def test_a_whole_diagnosis_leaves_the_users_files_as_they_were(tmp_path: Path) -> None:
    folder = busy_folder(tmp_path)
    before = snapshot(folder)
    report = diagnosed(folder, "--budget", "50s", "train.py")
    assert snapshot(folder) == before
    assert report["trying"]["legs"] >= 3
    assert "stays as it is" in report["stdout"] or report["trials"]


TINY = """
import numpy as np
from tensorflow import keras

x, y = np.random.rand(20000, 16).astype("float32"), np.random.rand(20000, 1).astype("float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=16, epochs=50, verbose=0)
"""


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    "moment",
    [
        "a leg begins to start",
        pytest.param("a leg waits for its turn", marks=(pytest.mark.script, pytest.mark.sentinel)),
    ],
)
def test_ctrl_c_during_the_trials_reports_what_was_measured(
    tmp_path: Path, mark: str, moment: str
) -> None:
    script(tmp_path, TINY, "train.py")
    process = started(tmp_path, "train.py")
    wait(tmp_path, mark, moment)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, output + errors
    assert "One step" in output
    assert "interrupted" in output.lower()
    assert "Traceback" not in errors
    assert strays(mark) == []


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("brief")
def test_no_stopped_process_remains_after_a_kill_9_of_trainperf(tmp_path: Path, mark: str) -> None:
    script(tmp_path, TINY, "train.py")
    process = started(tmp_path, "train.py")
    wait(tmp_path, mark, "a leg waits for its turn")
    process.kill()
    process.communicate()
    left = lambda: strays(mark) or list(tmp_path.glob("runs/*/leg-*"))  # noqa: E731
    assert soon(lambda: not left()), left()


ONLY_ONE = """
import fcntl, sys
lock = open("/tmp/trainperf-test-" + sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


@pytest.mark.timeout(400)
def test_a_script_that_cannot_run_beside_itself_is_tried_in_fresh_processes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "code"
    script(folder, ONLY_ONE + TINY, "train.py")
    lock = Path("/tmp/trainperf-test-" + tmp_path.name)
    try:
        report = diagnosed(folder, "--budget", "240s", "train.py", tmp_path.name)
    finally:
        lock.unlink(missing_ok=True)
    assert report["trying"]["mode"] == "one after another"
    assert "BlockingIOError" in report["trying"]["mode_reason"]
    assert [one for one in report["trials"] if one["speedup"]]


def wait(folder: Path, mark: str, moment: str) -> None:
    def came() -> bool:
        legs = any(folder.glob("runs/*/leg-*/run.json"))
        return legs and (moment == "a leg begins to start" or bool(states(mark)))

    assert soon(came, 120.0), f"never came: {moment}"
