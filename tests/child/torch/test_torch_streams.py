"""Copies on the stream of a step and beside it, on a GPU that is emulated by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from fakes import Clock, FakeProcess
from looping import Watcher
from trainperf.child.timing.device.clock import Mark
from trainperf.child.torch.loops import TorchLoops
from trainperf.child.torch.step import hooks
from trainperf.child.torch.step.detail import Detail

COPY_S, COMPUTE_S = 0.040, 0.050


class Gpu:
    """Two streams, first in, first out; the host waits on a clock that only it moves."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.copy_s = COPY_S
        gpu = self

        class Event:
            at = 0.0

            def record(self, stream: Any) -> None:
                self.at = stream.free_at

            def wait(self, stream: Any = None) -> None:
                (stream or gpu.now).wait_event(self)

        class Stream:
            made = 0

            def __init__(self) -> None:
                Stream.made += 1
                self.cuda_stream = Stream.made
                self.free_at = 0.0

            def wait_stream(self, stream: Any) -> None:
                self.free_at = max(self.free_at, stream.free_at)

            def wait_event(self, event: Any) -> None:
                self.free_at = max(self.free_at, event.at)

            def record_event(self) -> Any:
                made = Event()
                made.record(self)
                return made

            def synchronize(self) -> None:
                gpu.clock.tick(max(0.0, self.free_at - gpu.clock()))

        self.Stream, self.Event = Stream, Event
        self.now = Stream()

    def launch(self, seconds: float) -> None:
        self.now.free_at = max(self.now.free_at, self.clock()) + seconds

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        before, self.now = self.now, stream
        yield
        self.now = before


class Marks:
    """Marks on the stream in use, as on the one that a step computes on."""

    name = "the emulated GPU's events"
    asynchronous = True
    marks = True

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def mark(self) -> Mark:
        now = self.gpu.clock()
        return Mark(now, {0: max(now, self.gpu.now.free_at)})

    def at(self, mark: Mark) -> float:
        return float((mark.queued or {})[0])

    def passed(self, mark: Mark) -> bool:
        return self.gpu.clock() >= self.at(mark)

    def wait(self) -> None:
        self.gpu.now.synchronize()


USERS = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(4, 1)

    def forward(self, x):
        gpu.launch(seconds)
        return self.one(x)

net, x = Net(), torch.ones(2, 4)
side = gpu.Stream()
for _ in range(4):
    boundary()
{step}
    net(x).sum().backward()
boundary()
"""
PREFETCHED = """\
    torch.cuda.current_stream().wait_stream(side)
    with gpu.on(side):
        y = x.to("cuda")"""
BY_EVENT = """\
    torch.cuda.current_stream().wait_event(side.record_event())
    with gpu.on(side):
        y = x.to("cuda")"""
BY_WAIT = """\
    side.record_event().wait()
    with gpu.on(side):
        y = x.to("cuda")"""
BY_NAME = """\
    torch.cuda.current_stream().wait_stream(stream=side)
    with gpu.on(side):
        y = x.to("cuda")"""


@pytest.fixture
def split(users, monkeypatch) -> Callable[..., dict[str, Any]]:
    """Seconds, calls and place of the parts of a step of the user's."""
    gpu = Gpu(Clock())
    fakes = {
        "is_initialized": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "get_sync_debug_mode": lambda: 1,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "current_stream": lambda *_: gpu.now,
        "Stream": gpu.Stream,
        "Event": gpu.Event,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)

    def copy(tensor: Any, *_: Any) -> Any:
        gpu.launch(gpu.copy_s)
        return tensor

    monkeypatch.setattr(torch.Tensor, "to", copy)
    monkeypatch.setattr(torch.Tensor, "copy_", copy)
    monkeypatch.setattr(hooks.Hooks, "_between", lambda *_: None)  # all tensors are on the CPU

    def run(step: str, copy_s: float = COPY_S) -> dict[str, Any]:
        gpu.copy_s = copy_s
        process = FakeProcess(clock=gpu.clock)
        clock = Marks(gpu)
        loops = TorchLoops(Watcher())
        loops.process = process
        loops.device = clock
        detail = Detail(loops)
        at: list[Mark] = []

        def boundary() -> None:
            if at:
                detail.step_ended(at.pop(), clock.mark())
            else:
                detail.start()
            at.append(clock.mark())

        try:
            users(USERS.format(step=step), gpu=gpu, seconds=COMPUTE_S, boundary=boundary)
        finally:
            detail.stop()
        assert not process.record.of("missing")
        [event] = process.record.of("torch_split")
        return {name: (one[0] / event["steps"], *one[1:]) for name, one in event["parts"].items()}

    return run


WAYS = pytest.mark.parametrize("prefetched", [PREFETCHED, BY_EVENT, BY_WAIT, BY_NAME])


@WAYS
def test_a_copy_beside_the_step_that_is_hidden_costs_nothing(split, prefetched):
    parts = split(prefetched)
    assert parts["transfer"][0] == pytest.approx(0.0)
    assert parts["forward"][0] == pytest.approx(COMPUTE_S)


@WAYS
def test_a_copy_beside_the_step_costs_what_the_step_waits_for_it(split, prefetched):
    parts = split(prefetched, 0.080)
    waits = 3 * (0.080 - COMPUTE_S) / 4  # the first step has nothing to wait for
    assert parts["transfer"][:2] == pytest.approx((waits, 3))
    assert parts["forward"][0] == pytest.approx(COMPUTE_S)
