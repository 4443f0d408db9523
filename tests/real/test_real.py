"""Scripts as their users write them, diagnosed whole: the cause, and the repair that is kept.

Each stands for a kind of public script on which an expert's first change gave 1.4 to 12 times the
speed. None of them was written with the code of a fix at hand.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kit.processes import reported, tries

pytestmark = [pytest.mark.alone, pytest.mark.long]

HERE = Path(__file__).parent
TRIES = 2
"""A neighbour's burst may hide a gain in one run."""


@dataclass(frozen=True)
class Case:
    """A script, and the fix that is kept, or measured apart where it changes the experiment.

    Of the loop of a `library` also the `edit`, or the words of the command, that make it; `needs`
    is what older versions of it lack. Its time is what confirms the repair on whole runs as well,
    or as little as finds it.
    """

    script: str
    fix: str
    least: float
    apart: bool = False
    library: str = ""
    edit: str = ""
    arguments: tuple[str, ...] = ()
    needs: str = ""
    time: tuple[str, ...] = ("--full-run", "4min")


CASES = [
    Case("inline_tape.py", "tf_function", 2.0),
    Case("null_context.py", "torch_autocast", 1.1),
    Case("small_batch.py", "batch_size", 1.1, apart=True),
    Case("mirrored_cpus.py", "tf_strategy_single", 1.2),
    Case("waiting_numpy_function.py", "tf_py_function", 1.3),
    Case("loader_keywords.py", "torch_workers", 1.1),
    Case("config_object.py", "torch_workers", 1.1, edit="default.num_workers = "),
    Case("histograms_each_step.py", "torch_step_logging", 1.5, apart=True, library="tensorboard"),
    Case(
        "hugging_face_trainer.py",
        "torch_autocast",
        1.1,
        library="transformers",
        arguments=("--bf16", "True"),
    ),
    Case(
        "eager_attention.py",
        "torch_eager_attention",
        1.3,
        library="transformers",
        edit='attn_implementation="sdpa"',
        needs="DataCollatorWithFlattening",  # as new as BERT with a fused kernel
    ),
    Case(
        "lightning_trainer.py",
        "torch_autocast",
        1.1,
        library="lightning",
        edit='precision="bf16-mixed"',
    ),
    Case(
        "accelerate_loop.py",
        "torch_autocast",
        1.1,
        library="accelerate",
        edit='default="bf16"',
    ),
]


def diagnosed(script: str, folder: Path, *options: str) -> dict[str, Any]:
    folder.mkdir()
    shutil.copy(HERE / script, folder)
    return reported(folder, *options, script)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.script) for case in CASES])
def test_what_an_expert_would_change_first_is_tried_and_pays(case: Case, tmp_path: Path) -> None:
    if case.library and importlib.util.find_spec(case.library) is None:
        pytest.skip(f"{case.library} is not installed")
    if case.needs and not hasattr(importlib.import_module(case.library), case.needs):
        pytest.skip(f"the installed {case.library} has no {case.needs}")
    for attempt in tries(case.script, TRIES):
        report = diagnosed(case.script, tmp_path / str(attempt), "--only", case.fix, *case.time)
        found = [one for one in report["trials"] if one["fix"] == case.fix and one["speedup"]]
        best = max(found, key=lambda one: one["speedup"], default=None)
        wanted = "faster, but changes the experiment" if case.apart else "kept"
        if best is not None and best["outcome"] == wanted and best["low"] > case.least:
            break
    else:
        pytest.fail(f"{case.fix}: {report['trials']}")
    assert not report["verdict"]["healthy"]
    if case.apart:
        assert "These would change the experiment" in report["stdout"]
        assert report["stack"] is None
        (change,) = report["experiment_changes"]
        assert change["finding"]["id"] == case.fix
        assert change["unit"] == "samples"
        assert change["ways"][0]["low"] > case.least
        assert change["before_per_s"] > 0
        assert change["patch"]["diff"]
        assert report["patch"]["diff"] == ""
    else:
        assert case.fix in report["stack"]["fixes"]
        assert report["findings"][0]["id"] == case.fix
        assert report["patch"]["arguments"] == list(case.arguments)
        assert case.edit in report["patch"]["diff"]
        assert bool(report["patch"]["diff"]) != bool(case.arguments)
        if runs := report["training"]["runs"]:  # of scripts that end within the time for them
            before, changed, again, after = runs
            assert changed + again < before + after


@pytest.mark.timeout(300)
def test_time_between_fits_is_part_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINPERF_MEASURE", "3s")  # of its steps, which are the least of it
    report = diagnosed("predict_between_fits.py", tmp_path / "0", "--no-trials")
    assert report["findings"][0]["id"] == "keras_predict_in_loop"
    assert not report["verdict"]["healthy"]
    assert report["verdict"]["bottleneck"] == "host"
