"""PyTorch's devices: all that a process uses are waited for, and timed by their own events."""

from __future__ import annotations

import functools
import time

import pytest
import torch

from emulation import fake_cuda
from kit.child import Clock
from trainperf.child.torch.loops import TorchClock


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


def test_of_two_devices_the_later_one_says_when(cuda, clock):
    cuda.launch(0.1, device=1)
    device = TorchClock(clock)
    first = device.mark()
    cuda.launch(0.2)
    cuda.launch(0.7, device=1)
    assert device.at(device.mark()) - device.at(first) == pytest.approx(0.7)


def test_a_stream_on_which_weights_are_updated_is_timed(cuda, clock):
    device = TorchClock(clock)
    device.mark()
    side = cuda.devices[0].stream()
    with cuda.stream(side):
        device.see_streams()
    first = device.mark()
    with cuda.stream(side):
        cuda.launch(0.3)
    assert device.at(device.mark()) - device.at(first) == pytest.approx(0.3)


def test_while_a_stream_captures_nothing_waits_and_nothing_is_queued(cuda, clock, monkeypatch):
    device = TorchClock(clock)
    device.wait()
    cuda.launch(0.3)
    cuda.capturing = True
    monkeypatch.setattr(torch.cuda, "Event", None)
    device.wait()
    assert device.mark().queued is None
    assert clock.now == 1000.0


def test_long_runs_keep_their_precision(cuda, clock):
    """Events tell milliseconds since another in single precision."""
    device = TorchClock(clock)
    device.wait()
    clock.tick(100_000.0)
    device.wait()
    first = device.mark()
    assert first.anchor.host == pytest.approx(clock.now)
