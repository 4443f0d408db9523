"""Kineto around steps of a tiny loop: what it leaves, and what is read from the same trace."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from looping import Record  # noqa: E402
from trainperf.child.torch.step import pass_trace  # noqa: E402
from trainperf.child.torch.step.operator_times import PASS  # noqa: E402
from trainperf.child.torch.step.tracer import TorchTracer  # noqa: E402


def tracer(model: Any = None, *args: Any, world: Any = None) -> Any:
    calls = {} if model is None else {id(model): (model, args, {})}
    loops = SimpleNamespace(model_calls=calls, optimizers=[], autocast="")
    driver: Any = SimpleNamespace(
        loops=loops,
        record=Record(),
        sync=lambda: None,
        clock=time.monotonic,
        process=SimpleNamespace(settings={}),
        world=world,
    )
    return TorchTracer(driver)


def mlp() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))


def step(model: Any, x: Any) -> None:
    model(x).sum().backward()


def traced(one: Any, model: Any, x: Any, steps: int = 2) -> int:
    one.start()
    for number in range(steps):
        one.step_begins(number)
        step(model, x)
        one.step_ends()
    one.trace_passes()
    return int(one.stop())


# What must be left alone comes first.


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


def test_weights_and_environment_and_tracer_are_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setenv("KINETO_LOG_LEVEL", "1")
    model = mlp()
    weights = [each.detach().clone() for each in model.parameters()]
    before = dict(os.environ)
    one = tracer(model, torch.ones(3, 4))
    traced(one, model, torch.ones(3, 4))
    one.save(str(tmp_path), "t")
    assert dict(os.environ) == before
    assert all(map(torch.equal, weights, model.parameters()))
    assert not torch.autograd._profiler_enabled()


# What must be there.


def test_the_steps_are_marked_as_pytorch_marks_them(tmp_path):
    model = mlp()
    one = tracer(model, torch.ones(3, 4))
    events = traced(one, model, torch.ones(3, 4))
    saved = one.save(str(tmp_path), "t")
    assert saved["notes"] == []
    names = [each["name"] for each in json.loads((tmp_path / "t.json").read_text())["traceEvents"]]
    assert [name for name in names if name.startswith(saved["mark"])] == [
        *("ProfilerStep#0", "ProfilerStep#1"),
    ]
    assert "aten::addmm" in names
    assert 0 < events <= len(names)


def test_what_the_verdict_rests_on_is_read_from_the_same_trace(tmp_path):
    model = mlp()
    one = tracer(model, torch.ones(3, 4))
    traced(one, model, torch.ones(3, 4))
    one.save(str(tmp_path), "t")
    names = [each["name"] for each in json.loads((tmp_path / "t.json").read_text())["traceEvents"]]
    [event] = one._driver.record.events
    assert event["e"] == "torch_trace"
    assert event["passes"] == pass_trace.PASSES
    assert names.count(PASS) == 1 + pass_trace.PASSES  # the first is not read
    calls = {each["name"]: each["calls"] for each in event["operators"]}
    assert calls["aten::addmm"] == 2, "of each pass, not of the steps before"


def test_without_passes_there_is_a_reason_and_the_steps_are_there_all_the_same(tmp_path):
    model = mlp()
    one = tracer()
    traced(one, model, torch.ones(3, 4))
    assert one.save(str(tmp_path), "t")["events"] == str(tmp_path / "t.json")
    [event] = one._driver.record.events
    assert (event["e"], event["what"]) == ("missing", pass_trace.WHAT)
    assert "no training forward" in event["reason"]


def test_a_rank_runs_no_model_by_itself(tmp_path):
    model = mlp()
    one = tracer(model, torch.ones(3, 4), world=object())
    traced(one, model, torch.ones(3, 4))
    one.save(str(tmp_path), "t")
    assert one._driver.record.events == []


def test_where_no_step_was_traced_the_passes_are_by_themselves():
    model = mlp()
    one = tracer(model, torch.ones(3, 4))
    one.trace_passes_alone()
    assert [event["e"] for event in one._driver.record.events] == ["torch_trace"]


def test_a_tracer_can_be_started_again_for_the_steps_that_are_kept(tmp_path):
    model = mlp()
    one = tracer()
    first = traced(one, model, torch.ones(3, 4), steps=1)
    assert traced(one, model, torch.ones(3, 4), steps=3) > first
    one.save(str(tmp_path), "t")
    text = (tmp_path / "t.json").read_text()
    assert text.count('"ProfilerStep#0"') == 1


def test_a_build_that_cannot_trace_kernels_is_not_asked_to_and_that_is_said(tmp_path, monkeypatch):
    if torch.autograd.ProfilerActivity.CUDA in torch._C._autograd._supported_activities():
        pytest.skip("this build of PyTorch can")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pass_trace.device() is None
    model = mlp()
    one = tracer()
    traced(one, model, torch.ones(3, 4))  # with CUDA's stubs every operator would raise
    [note] = one.save(str(tmp_path), "t")["notes"]
    assert note.startswith("the tracer saw no kernel on the GPU: CUPTI is missing")
