"""A real trace of a tiny model: what it finds, what it leaves as it was, when it gives up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from looping import Record  # noqa: E402
from trainperf.child.torch.loops import TorchLoops  # noqa: E402
from trainperf.child.torch.probes import probes  # noqa: E402
from trainperf.child.torch.step import operator_times, pass_trace  # noqa: E402


def mlp() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))


def driver(model: Any = None, *args: Any) -> Any:
    calls = {} if model is None else {id(model): (model, args, {})}
    loops = SimpleNamespace(model_calls=calls, optimizers=[], autocast="")
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
    pass_trace.record(one, time.monotonic() + seconds)
    [event] = one.record.events
    return dict(event)


def reason(event: dict[str, Any]) -> str:
    assert event["e"] == "missing", event
    assert event["what"] == "the operators of a step"
    return str(event["reason"])


# What must not be traced, or changed, comes first.


def test_without_a_model_there_is_no_trace():
    assert "no training forward" in reason(traced())


def test_too_little_time_is_a_reason():
    assert reason(traced(mlp(), torch.ones(3, 4), seconds=-1.0)) == "too little time was left"


def test_a_pass_that_takes_long_is_not_traced(monkeypatch):
    monkeypatch.setattr(pass_trace, "TRACE_S", 1e-6)
    assert "too long to be traced" in reason(traced(mlp(), torch.ones(3, 4)))


@pytest.fixture
def compiled() -> Any:
    """A model of the script's, compiled for batches of three."""
    model = torch.compile(mlp(), backend="aot_eager", dynamic=False)
    model(torch.ones(3, 4)).sum().backward()
    yield model
    torch._dynamo.reset()


def test_nothing_is_compiled_to_be_traced(compiled):
    assert "recompile" in reason(traced(compiled, torch.ones(5, 4)))
    assert compiled(torch.ones(5, 4)).shape == (5, 2)  # but the script compiles as ever


def test_what_the_script_compiled_is_traced_as_it_runs(compiled):
    event = traced(compiled, torch.ones(3, 4))
    assert event["e"] == "torch_trace"
    assert "CompiledFunction" in {one["name"] for one in event["operators"]}


def test_the_tracer_of_the_script_is_left_alone():
    with torch.autograd.profiler.profile(use_kineto=False) as own:
        assert reason(traced(mlp(), torch.ones(3, 4))) == "the script's own profiler is on"
    assert any(event.name == "aten::addmm" for event in own.function_events)


def test_a_tracer_that_cannot_start_is_a_reason(monkeypatch):
    def refused(**_: Any) -> Any:
        raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")

    monkeypatch.setattr(torch.autograd.profiler, "profile", refused)
    said = reason(traced(mlp(), torch.ones(3, 4)))
    assert said == "RuntimeError: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"


def test_a_device_that_the_tracer_is_not_asked_about_is_a_reason():
    one = SimpleNamespace(device="mps", once=0.001)
    with pytest.raises(pass_trace.NotOffered, match="mps"):
        pass_trace._trace(driver(), one)


def test_a_gpu_on_which_no_kernel_was_seen_is_a_reason(monkeypatch):
    monkeypatch.setattr(pass_trace, "_events", lambda *_: [])
    with pytest.raises(pass_trace.NotOffered, match="CUPTI is missing, or not permitted"):
        pass_trace._trace(driver(), SimpleNamespace(device="cuda", once=0.001))


def test_weights_and_environment_and_tracer_are_as_they_were(monkeypatch):
    monkeypatch.setenv("KINETO_LOG_LEVEL", "1")
    model = mlp()
    weights = [each.detach().clone() for each in model.parameters()]
    before = dict(os.environ)
    assert traced(model, torch.ones(3, 4))["e"] == "torch_trace"
    assert dict(os.environ) == before
    assert all(map(torch.equal, weights, model.parameters()))
    assert not torch.autograd._profiler_enabled()


# What must be found.


def test_the_operators_of_forward_and_backward_are_found():
    event = traced(mlp(), torch.ones(3, 4))
    names = {one["name"]: one["calls"] for one in event["operators"]}
    assert names["aten::addmm"] == 2  # of each Linear one
    assert names["aten::mm"] == 3  # backward: weights of both, inputs of the second
    assert event["device"] == "cpu"
    assert event["passes"] == pass_trace.PASSES
    assert event["gap_s"] is None
    assert event["tensor_core_s"] is None


def test_the_operators_take_no_longer_than_the_pass():
    event = traced(mlp(), torch.ones(3, 4))
    listed = [one["seconds"] for one in event["operators"]]
    assert listed == sorted(listed, reverse=True)
    assert 0 < sum(listed) + event["others_s"] <= event["seconds"]
    assert len(listed) == operator_times.OPERATORS
    assert event["kernels"] > 0


def test_a_slower_pass_is_traced_fewer_times(monkeypatch):
    asked: list[int] = []

    def events(driver: Any, one: Any, passes: int) -> list[Any]:
        asked.append(passes)
        return []

    monkeypatch.setattr(pass_trace, "_events", events)
    for once in (0.4, 0.3, 0.001):
        with pytest.raises(pass_trace.NotOffered, match="recorded nothing"):
            pass_trace._trace(driver(), SimpleNamespace(device="cpu", once=once))
    assert asked == [2, 3, 4]  # the first of them is not read


def test_the_names_of_amds_kernels_say_nothing_of_tensor_cores(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(pass_trace, "OperatorTimes", lambda *_, **__: Gpu())
    monkeypatch.setattr(pass_trace, "_events", lambda *_: [])
    one = SimpleNamespace(device="cuda", once=0.001)
    assert pass_trace._trace(driver(), one) == {"gap_s": 0.1, "tensor_core_s": None}


class Gpu:
    kernels = windows = (1,)

    def event(self) -> dict[str, Any]:
        return {"gap_s": 0.1, "tensor_core_s": 0.0}


def test_the_step_is_traced_when_the_probes_are_over(monkeypatch):
    ends: dict[str, float] = {}
    for module in (probes, pass_trace):
        monkeypatch.setattr(
            module, "record", lambda _, end, module=module: ends.update({module.__name__: end})
        )
    loops: Any = SimpleNamespace(process=SimpleNamespace(settings={}))
    TorchLoops.probes(loops, driver(), 10.0)
    assert list(ends) == [probes.__name__, pass_trace.__name__]
    assert ends[probes.__name__] < ends[pass_trace.__name__] == 10.0


SCRIPT = """
import os, tempfile, time
from types import SimpleNamespace
import torch
from trainperf.child.torch.step import pass_trace as torch_trace

files = set(os.listdir(tempfile.gettempdir()))
model = torch.nn.Linear(4, 4)
events = []
record = SimpleNamespace(write=lambda kind, **fields: events.append(kind), flush=lambda: None)
calls = {1: (model, (torch.ones(2, 4),), {})}
loops = SimpleNamespace(model_calls=calls, optimizers=[], autocast="")
driver = SimpleNamespace(
    loops=loops, record=record, sync=lambda: None, clock=time.monotonic,
    process=SimpleNamespace(settings={}), world=None,
)
torch_trace.record(driver, time.monotonic() + 100)
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
