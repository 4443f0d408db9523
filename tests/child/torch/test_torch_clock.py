"""PyTorch's devices: all that a process uses are waited for, and timed by their own events."""

from __future__ import annotations

import functools
import time

import pytest
import torch

from emulation import fake_cuda
from kit.child import Clock
from trainperf.child.torch.devices import TorchClock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cuda(monkeypatch, clock):
    """Three emulated devices behind `torch.cuda`; the first has a context."""
    put = functools.partial(monkeypatch.setattr, raising=False)
    return fake_cuda.install(3, clock=clock, sleep=clock.tick, put=put)


def test_without_a_gpu_marks_are_the_hosts_and_nothing_waits():
    device = TorchClock(time.monotonic)
    before = time.monotonic()
    device.wait()
    mark = device.mark()
    assert not torch.cuda.is_initialized()
    assert not device.asynchronous
    assert mark.queued is None
    assert before <= device.at(mark) <= time.monotonic()


def test_no_gpu_that_is_not_used_is_asked(cuda, clock, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "synchronize", asked.append)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: asked.append(index) or STREAM)
    cuda.used = {1}
    TorchClock(clock).wait()
    assert set(asked) == {1}


STREAM = fake_cuda._Stream(fake_cuda.Device().default, 1)


def test_while_a_stream_captures_nothing_waits_and_nothing_is_queued(cuda, clock, monkeypatch):
    device = TorchClock(clock)
    device.wait()
    cuda.launch(0.3)
    cuda.capturing = True
    monkeypatch.setattr(torch.cuda, "Event", None)
    device.wait()
    assert device.mark().queued is None
    assert clock.now == 1000.0
