"""A real trace of a tiny model: what it finds, what it leaves as it was, when it gives up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from kit.child import Record
from trainperf.child.timing.probing import NotOffered
from trainperf.child.torch.built.places import ModelCall, Models
from trainperf.child.torch.probes import passes


def mlp() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))


def driver(model: Any = None, *args: Any) -> Any:
    calls = {} if model is None else {id(model): ModelCall(model, args, {})}
    loops = SimpleNamespace(models=Models(calls=calls), optimizers=[])
    process = SimpleNamespace(settings={})
    return SimpleNamespace(
        loops=loops,
        record=Record(),
        sync=lambda: None,
        clock=time.monotonic,
        process=process,
        world=None,
    )


def traced(model: Any = None, *args: Any, seconds: float = 300.0) -> dict[str, Any]:
    """The one event that tracing records."""
    one = driver(model, *args)
    passes.record_trace(one, time.monotonic() + seconds)
    [event] = one.record.events
    return dict(event)


def reason(event: dict[str, Any]) -> str:
    assert event["e"] == "missing", event
    assert event["what"] == "the operators of a step"
    return str(event["reason"])


# What must not be traced, or changed, comes first.


def test_a_pass_that_takes_long_is_not_traced(monkeypatch):
    monkeypatch.setattr(passes, "TRACE_S", 1e-6)
    assert "too long to be traced" in reason(traced(mlp(), torch.ones(3, 4)))


@pytest.fixture
def compiled() -> Any:
    """A model of the script's, compiled for batches of three."""
    model = torch.compile(mlp(), backend="aot_eager", dynamic=False)
    model(torch.ones(3, 4)).sum().backward()
    yield model
    torch._dynamo.reset()


def test_weights_and_environment_and_tracer_are_as_they_were(monkeypatch):
    monkeypatch.setenv("KINETO_LOG_LEVEL", "1")
    model = mlp()
    weights = [each.detach().clone() for each in model.parameters()]
    before = dict(os.environ)
    assert traced(model, torch.ones(3, 4))["e"] == "torch_trace"
    assert dict(os.environ) == before
    assert all(map(torch.equal, weights, model.parameters()))
    assert not torch.autograd._profiler_enabled()


def test_nothing_is_compiled_to_be_traced(compiled):
    assert "recompile" in reason(traced(compiled, torch.ones(5, 4)))
    assert compiled(torch.ones(5, 4)).shape == (5, 2)  # but the script compiles as ever


def test_the_tracer_of_the_script_is_left_alone():
    with torch.autograd.profiler.profile(use_kineto=False) as own:
        assert reason(traced(mlp(), torch.ones(3, 4))) == "the script's own profiler is on"
    assert any(event.name == "aten::addmm" for event in own.function_events)


def test_a_gpu_on_which_no_kernel_was_seen_is_a_reason(monkeypatch):
    seen = SimpleNamespace(kineto_results=SimpleNamespace(events=list))
    monkeypatch.setattr(passes, "profile", lambda: nullcontext(seen))
    a_pass = Mock(device="cuda", once=0.001)
    with pytest.raises(NotOffered, match="CUPTI is missing, or not permitted"):
        passes._trace(driver(), a_pass)


# What must be found.


SCRIPT = """
import os, tempfile, time
from types import SimpleNamespace
import torch
from trainperf.child.torch.built.places import ModelCall, Models
from trainperf.child.torch.probes import passes as torch_trace

files = set(os.listdir(tempfile.gettempdir()))
model = torch.nn.Linear(4, 4)
events = []
record = SimpleNamespace(write=lambda kind, **fields: events.append(kind), flush=lambda: None)
calls = {1: ModelCall(model, (torch.ones(2, 4),), {})}
loops = SimpleNamespace(models=Models(calls=calls), optimizers=[])
driver = SimpleNamespace(
    loops=loops, record=record, sync=lambda: None, clock=time.monotonic,
    process=SimpleNamespace(settings={}), world=None,
)
torch_trace.record_trace(driver, time.monotonic() + 100)
print(*events, *(set(os.listdir(tempfile.gettempdir())) - files))
"""


@pytest.mark.script
def test_nothing_is_written_to_the_streams_of_the_script_or_left_behind(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("KINETO_LOG_LEVEL", None)
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True
    )
    assert ran.stdout == "torch_trace\n"
    assert ran.stderr == ""
