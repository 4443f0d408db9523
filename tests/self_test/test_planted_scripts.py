from __future__ import annotations

from pathlib import Path

import pytest

from trainperf.errors import TrainperfError
from trainperf.run.interpreter import Interpreter
from trainperf.self_test.experiments import FRAMEWORKS, Planted, find, lay_out


def only(*modules: str) -> Interpreter:
    class Python(Interpreter):
        def has(self, module: str) -> bool:
            return module in modules

    return Python("/env/bin/python", "as you asked")


def test_pytorch_comes_first_and_the_one_named_before() -> None:
    both = only("torch", "tensorflow")
    assert find(None, both).module == "torch"
    assert find(None, only("tensorflow")).module == "tensorflow"
    assert find("tensorflow", both).module == "tensorflow"


def test_without_a_framework_one_sentence_says_so() -> None:
    with pytest.raises(TrainperfError, match="/env/bin/python has no PyTorch or TensorFlow"):
        find(None, only())
    with pytest.raises(TrainperfError, match="/env/bin/python has no TensorFlow"):
        find("tensorflow", only("torch"))


def test_a_framework_that_does_not_run_says_why(tmp_path: Path) -> None:
    broken = "raise RuntimeError('no kernel image is available')"
    with pytest.raises(TrainperfError, match="failed: RuntimeError: no kernel image is available"):
        lay_out(FRAMEWORKS[0], tmp_path, lambda text: broken)


def test_on_a_gpu_the_loader_is_hidden_by_lateness_and_on_a_cpu_by_a_worker(tmp_path: Path) -> None:
    on_cpu = Planted(FRAMEWORKS[0], tmp_path, "2.13", "", 0.0)
    on_gpu = Planted(FRAMEWORKS[0], tmp_path, "2.13", "H100", 1.98e9)
    assert "--workers" in on_cpu.command("hidden")
    assert "--workers" not in on_gpu.command("hidden")
    assert on_gpu.command("hidden")[-2:] == ("--per-second", "1980000000")
