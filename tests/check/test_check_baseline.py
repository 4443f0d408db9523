"""The file of a baseline: what it holds, and what is said of one that will not do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reporters.samples import FAILED, INPUT_BOUND
from trainperf import store
from trainperf.check import answering
from trainperf.check.running import Repeat, Speed
from trainperf.errors import TrainperfError

REPEATS = (
    Repeat(0.1, 0.11, 0.02, 0.01, 32, 1.0, 0.5, 0.9, Speed(0.05, 0.06)),
    Repeat(0.2, 0.21),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "baseline.json"
    answering.save(INPUT_BOUND, REPEATS, path)
    return path


def refused(path: Path, script: str = "slow_images.py") -> TrainperfError:
    with pytest.raises(TrainperfError) as caught:
        answering.load(path, script)
    return caught.value


def test_a_baseline_comes_back_as_it_was_saved(file: Path) -> None:
    saved = answering.load(file, "slow_images.py")
    assert saved.runs == REPEATS
    assert saved.evidence.times == INPUT_BOUND.evidence.times


def test_a_plain_report_is_a_baseline_of_one_run(tmp_path: Path) -> None:
    path = tmp_path / "diagnosis.json"
    store.save(INPUT_BOUND, path)
    for given in (path, tmp_path):
        (run,) = answering.load(given, "slow_images.py").runs
        assert INPUT_BOUND.real is not None
        assert run.fastest_s == min(INPUT_BOUND.real.blocks)
        assert run.mean_s == INPUT_BOUND.step_s
        assert run.speed is None


def test_a_script_whose_name_is_no_text_is_known_again(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    name = "we ird [red]\udce9.py"
    answering.save(replace(INPUT_BOUND, script=name), REPEATS, path)
    assert answering.load(path, name)
    assert answering.load(path, f"./{name}")
    assert "not of" in str(refused(path, "we ird [red].py"))


def test_without_a_baseline_the_command_that_makes_one_is_named(tmp_path: Path) -> None:
    error = refused(tmp_path / "none.json")
    assert "there is no baseline" in str(error)
    assert f"trainperf check --save-baseline {tmp_path / 'none.json'} slow_images.py" in error.hint


def test_a_baseline_of_another_script_is_refused(file: Path) -> None:
    assert "is a baseline of slow_images.py, not of other.py" in str(refused(file, "other.py"))


def test_a_baseline_without_a_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    store.save(FAILED, path)
    assert "has no time of a step" in str(refused(path))


@pytest.mark.parametrize(
    "wrong",
    [
        {"fastest_s": 0.0},
        {"mean_s": -1.0},
    ],
)
def test_a_baseline_with_figures_that_no_run_gives_is_refused(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    path = tmp_path / "baseline.json"
    answering.save(INPUT_BOUND, (replace(REPEATS[0], **wrong),), path)
    assert "holds figures that no run gives" in str(refused(path))
