"""Whole diagnoses of PyTorch loops whose loader, or autocast, holds them up."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit.processes import reported
from trainperf.trial.queue import ALONE

pytest.importorskip("torch")

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

SEEDS = Path(__file__).parent / "seeds"


def diagnosed(name: str, folder: Path, *words: str, given: tuple[str, ...] = ()) -> dict[str, Any]:
    shutil.copy(SEEDS / name, folder / name)
    return reported(folder, *words, name, *given)


def kept(report: dict[str, Any], fix: str) -> dict[str, Any]:
    found = [one for one in report["trials"] if one["fix"] == fix and one["kept"]]
    assert found, report["trials"]
    return dict(found[0])


@pytest.mark.timeout(600)
def test_workers_that_stay_are_tried_in_slices_of_whole_epochs(tmp_path: Path) -> None:
    only = ("--only", "torch_persistent_workers")
    report = diagnosed("torch_short_epochs.py", tmp_path, "--budget", "150s", *only)
    trial = kept(report, "torch_persistent_workers")
    assert trial["low"] > 1.2
    assert trial["steps"] % 20 == 0  # an epoch has 20 steps
    assert report["trying"]["mode_reason"] == "whole epochs (20 steps each)"
    assert "persistent_workers=True" in report["patch"]["diff"]
    # 0.1 s between epochs are the script's own: no gain in the workers' start takes them away
    assert report["stack"]["after_epoch_s"] > 0.1
    assert report["stack"]["before_epoch_s"] > report["stack"]["after_epoch_s"]


@pytest.mark.timeout(600)
def test_more_workers_than_cores_are_tried_where_items_wait(tmp_path: Path) -> None:
    only = ("--only", "torch_workers")
    report = diagnosed("torch_waiting_items.py", tmp_path, "--budget", "150s", *only)
    trial = kept(report, "torch_workers")
    cores = int(report["evidence"]["machine"]["cores"])
    tried = [one["variant"] for one in report["trials"] if one["fix"] == "torch_workers"]
    assert trial["low"] > 1
    if cores <= 4:  # with many cores as many workers suffice
        assert int(trial["variant"].removeprefix("workers=")) > cores, tried
        [finding] = [one for one in report["findings"] if one["id"] == "torch_workers"]
        assert "it waits" in finding["text"]


@pytest.mark.timeout(600)
def test_changes_that_run_out_of_memory_beside_others_are_tried_beside_the_script_alone(
    tmp_path: Path,
) -> None:
    card = Path("/tmp/trainperf-test-card-" + tmp_path.name)  # outside of what legs see copied
    try:
        report = diagnosed(
            "torch_small_card.py", tmp_path, "--budget", "150s", "--only", "torch_workers",
            given=(str(card),),
        )  # fmt: skip
    finally:
        shutil.rmtree(card, ignore_errors=True)
    assert report["trying"]["mode"] == "side by side"
    assert report["control"]["pairs"] >= 6
    trial = kept(report, "torch_workers")
    assert trial["low"] > 1.2
    assert trial["note"] == ALONE
    assert not [one for one in report["trials"] if one["outcome"] == "failed"]


@pytest.mark.timeout(300)
def test_what_is_slower_in_the_loop_gets_no_process(tmp_path: Path) -> None:
    """Casts to 16 bits take longer than all else that layers of 64 values do, on any CPU."""
    others = ("torch_compile", "torch_fused_optimizer", "omp_threads")
    left_out = (word for fix in others for word in ("--ignore", fix))
    report = diagnosed("torch_tiny_layers.py", tmp_path, "--budget", "60", *left_out)
    (trial,) = (one for one in report["trials"] if one["fix"] == "torch_autocast")
    assert (trial["outcome"], trial["basis"]) == ("slower", "in the loop")
    assert trial["low"] < trial["speedup"] < trial["high"] < 0.9
    assert trial["pairs"] >= 5
    assert trial["steps"] >= trial["pairs"]
    assert (report["trying"]["mode"], report["trying"]["legs"]) == ("none", 0)
    (saved,) = (tmp_path / "runs").iterdir()
    shown = subprocess.run(
        (sys.executable, "-m", "trainperf", "show", "--full", str(saved)),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.search(r"torch_autocast +\S+× +0\.\d+× \(.*\)[^×]*in the loop", shown.stdout)
