"""Facts of optimizers, and the time that fused kernels would take."""

import sys

import pytest
import torch

from kit.child import Watcher, text_at
from trainperf.child.torch.built import models as part
from trainperf.child.torch.built import places as built
from trainperf.child.torch.loops import TorchLoops


@pytest.fixture
def loops(monkeypatch):
    made = TorchLoops(Watcher())
    base = torch.optim.Optimizer
    monkeypatch.setattr(base, "__init__", base.__init__)
    built.watch_optimizers(made, sys.modules["torch.optim.optimizer"])
    return made


def weights(count=2, **options):
    return [torch.nn.Parameter(torch.ones(3, **options)) for _ in range(count)]


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.RMSprop(weights()),
        torch.optim.LBFGS(weights()),
        torch.optim.Adam(weights(device="meta")),
        torch.optim.Adam(weights(dtype=torch.complex64)),
    ],
)
def test_fused_kernels_are_not_offered_where_they_are_refused(optimizer):
    assert part.can_fuse(optimizer) is False


def test_the_place_is_the_users_call_of_the_constructor(loops, users):
    made = users("""
        import torch
        class Mine(torch.optim.SGD):
            def __init__(self, model):
                super().__init__(model.parameters(), lr=0.1)
        def make(model):
            return [torch.optim.AdamW(model.parameters()), Mine(model)]
        found = make(torch.nn.Linear(1, 1))
    """)
    sites = [loops.optimizer_calls[id(optimizer)].where for optimizer in made.found]
    assert [site["function"] for site in sites] == ["make", "make"]
    assert [*map(text_at, sites)] == ["torch.optim.AdamW(model.parameters())", "Mine(model)"]
    assert loops.optimizers_built == 2
