"""What is copied beside a step, on an emulated GPU, costs the step what it waits for it."""

from __future__ import annotations

import functools

import pytest
import torch

from emulation import fake_cuda
from kit.child import Clock, FakeProcess, Watcher
from trainperf.child.torch.loops import TorchClock, TorchLoops
from trainperf.child.torch.step.detail import Detail

COMPUTE_S = 0.050
USERS = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(4, 1)

    def forward(self, x):
        cuda.launch(COMPUTE_S)
        return self.one(x)

net, x, side = Net(), torch.ones(2, 4), cuda.beside()
for _ in range(4):
    boundary()
    {waits}
    with cuda.stream(side):
        x.to("meta")
    net(x).sum().backward()
boundary()
"""


@pytest.mark.parametrize(
    "waits",
    [
        "torch.cuda.current_stream().wait_stream(side)",
        "torch.cuda.current_stream().wait_stream(stream=side)",
        "torch.cuda.current_stream().wait_event(side.record_event())",
        "side.record_event().wait()",
    ],
)
@pytest.mark.parametrize("copy_s", [0.040, 0.080])
def test_a_copy_beside_the_step_costs_what_the_step_waits_for_it(users, monkeypatch, waits, copy_s):
    put, clock = functools.partial(monkeypatch.setattr, raising=False), Clock()
    cuda = fake_cuda.install(clock=clock, sleep=clock.tick, put=put)
    put(torch.Tensor, "to", torch.Tensor.to)
    cuda.copies(copy_s, pinned=True)
    loops, process, marks = TorchLoops(Watcher()), FakeProcess(clock=clock), []
    loops.process, loops.device = process, TorchClock(clock)
    detail = Detail(loops)

    def boundary():
        if marks:
            detail.step_ended(marks.pop(), loops.device.mark())
        else:
            detail.start()
        marks.append(loops.device.mark())

    try:
        users(USERS.format(waits=waits), cuda=cuda, COMPUTE_S=COMPUTE_S, boundary=boundary)
    finally:
        detail.stop()
    assert process.record.of("missing") == []
    [split] = process.record.of("torch_split")
    (transfer, calls, *_), (forward, *_) = (
        split["parts"][name] for name in ("transfer", "forward")
    )
    waited = 3 * max(0.0, copy_s - COMPUTE_S)  # the first step has nothing to wait for
    assert (transfer, calls) == (pytest.approx(waited), 3)
    assert forward == pytest.approx(split["steps"] * COMPUTE_S)
