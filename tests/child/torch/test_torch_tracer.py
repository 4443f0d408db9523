"""Kineto around steps of a tiny loop: the Chrome trace that it leaves, with a mark of each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from trainperf.child.torch.step.pass_trace import TorchTracer


def tracer() -> Any:
    driver: Any = SimpleNamespace(sync=lambda: None)
    return TorchTracer(driver)


def test_one_that_waits_for_its_step_is_left_alone_as_well():
    schedule = torch.profiler.schedule(wait=100, warmup=1, active=1)
    with torch.profiler.profile(schedule=schedule):
        assert not torch.autograd._profiler_enabled()
        assert tracer().refusal() == "the script's own profiler is on"
    assert tracer().refusal() == ""
