"""Kineto around steps of a tiny loop: the Chrome trace that it leaves, with a mark of each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainperf.child.torch.step import pass_trace  # noqa: E402
from trainperf.child.torch.step.pass_trace import TorchTracer  # noqa: E402


def tracer() -> Any:
    driver: Any = SimpleNamespace(sync=lambda: None)
    return TorchTracer(driver)


def traced(one: Any, model: Any) -> None:
    one.start()
    for number in range(2):
        with one.step(number):
            model(torch.ones(3, 4)).sum().backward()
    one.stop()


def names(file: Path) -> list[str]:
    return [event["name"] for event in json.loads(file.read_text())["traceEvents"]]


def test_a_profiler_of_the_scripts_that_is_on_is_left_alone():
    with torch.autograd.profiler.profile(use_kineto=False):
        assert tracer().refusal() == "the script's own profiler is on"
    assert tracer().refusal() == ""


def test_one_that_waits_for_its_step_is_left_alone_as_well():
    schedule = torch.profiler.schedule(wait=100, warmup=1, active=1)
    with torch.profiler.profile(schedule=schedule):
        assert not torch.autograd._profiler_enabled()
        assert tracer().refusal() == "the script's own profiler is on"
    assert tracer().refusal() == ""


def test_the_steps_are_marked_as_pytorch_marks_them_and_the_environment_is_as_it_was(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("KINETO_LOG_LEVEL", "1")
    before = dict(os.environ)
    one = tracer()
    traced(one, torch.nn.Linear(4, 64))
    assert one.save(str(tmp_path / "t.json")) == ""
    found = names(tmp_path / "t.json")
    marks = [name for name in found if name.startswith("ProfilerStep#")]
    assert marks == ["ProfilerStep#0", "ProfilerStep#1"]
    assert "aten::addmm" in found
    assert dict(os.environ) == before
    assert not torch.autograd._profiler_enabled()


def test_a_build_that_cannot_trace_kernels_is_not_asked_to_and_that_is_said(tmp_path, monkeypatch):
    if torch.autograd.ProfilerActivity.CUDA in torch._C._autograd._supported_activities():
        pytest.skip("this build of PyTorch can")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pass_trace.device() is None
    one = tracer()
    traced(one, torch.nn.Linear(4, 2))  # with CUDA's stubs every operator would raise
    note = one.save(str(tmp_path / "t.json"))
    assert note.startswith("the tracer saw no kernel on the GPU: CUPTI is missing")
