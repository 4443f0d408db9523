"""Whole diagnoses of a script whose device runs later than the host: an emulated one.

What is hidden behind the device costs nothing, and what is not is found at its own ratio.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kit.processes import reported

pytest.importorskip("torch")

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

TESTS = Path(__file__).parents[1]
CLOSE = 0.05


def diagnosed(kind: str, folder: Path, *words: str) -> dict[str, Any]:
    shutil.copy(TESTS / "end_to_end/seeds/torch_emulated.py", folder / "train.py")
    library = folder / "site-packages"  # what waits in it is no function of the script's own
    shutil.copytree(TESTS / "emulation", library / "emulation")
    env = {"KIND": kind, "EMULATION": str(library)}
    found = reported(folder, *words, "train.py", env=env)
    assert found["evidence"]["loop"]["clock"] == "CUDA events"
    return found


def kept(report: dict[str, Any]) -> list[str]:
    return [one["fix"] for one in report["trials"] if one["kept"]]


@pytest.mark.sentinel
@pytest.mark.timeout(300)
def test_a_hidden_loader_is_no_cause(tmp_path: Path) -> None:
    report = diagnosed("hidden", tmp_path, "--budget", "40s")
    assert report["evidence"]["times"]["real"]["seconds"] == pytest.approx(0.150, rel=CLOSE)
    assert report["evidence"]["times"]["resident"]["seconds"] == pytest.approx(0.150, rel=CLOSE)
    assert report["verdict"]["utilization"] > 0.97
    assert report["verdict"]["bottleneck"] not in ("input", "host", "storage")
    assert kept(report) == []


@pytest.mark.timeout(300)
def test_an_input_that_is_not_hidden_is_repaired_at_its_own_ratio(tmp_path: Path) -> None:
    report = diagnosed("input", tmp_path, "--budget", "90s", "--only", "torch_workers")
    assert report["evidence"]["times"]["real"]["seconds"] == pytest.approx(0.120, rel=CLOSE)
    assert report["verdict"]["bottleneck"] == "input"
    [trial] = [one for one in report["trials"] if one["kept"]]
    assert trial["speedup"] == pytest.approx(3.0, rel=2 * CLOSE)


@pytest.mark.timeout(300)
def test_a_copy_that_is_hidden_beside_the_step_is_no_cost(tmp_path: Path) -> None:
    report = diagnosed("prefetched", tmp_path, "--no-trials")
    assert report["evidence"]["times"]["real"]["seconds"] == pytest.approx(0.060, rel=CLOSE)
    assert report["verdict"]["bottleneck"] not in ("input", "host", "storage")
    assert "torch_transfers" not in [one["id"] for one in report["findings"]]
    copies = [one for one in report["evidence"]["torch"]["split"] if one["name"] == "transfer"]
    assert all(one["share"] < 0.05 for one in copies)
