"""`DistributedDataParallel` as it is seen in a process group of one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from kit.exchange import hooked, process_group, train
from trainperf.child.torch.exchange import ddp as torch_ddp

X = torch.ones(2, 3)


@pytest.fixture
def loops():
    with process_group(), hooked() as found:
        yield found


class Branches(nn.Module):
    """Of two layers only the first is used."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(3, 3)
        self.spare = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.used(x)


def built(model: Any = None, **settings: Any) -> tuple[Any, Any]:
    ddp = DistributedDataParallel(model or nn.Linear(3, 3), **settings)
    return ddp, torch.optim.SGD(ddp.parameters(), lr=1e-3)


def facts(loops: Any) -> dict[str, Any]:
    ((ddp, one),) = loops.ddps.alive
    return torch_ddp.facts(ddp, one)


def test_a_setting_of_the_users_own_hand_counts_as_no_sync(loops):
    ddp, optimizer = built()
    for synced in (False, True):
        ddp.require_backward_grad_sync = synced
        loss = ddp(X).sum()
        loops.backward_begins(loss)
        loss.backward()
        loops.backward_ended()
    optimizer.step()
    loops.stepped(optimizer)
    found = facts(loops)
    assert (found["micro_steps"], found["synced"]) == (2, 1)


def test_parameters_without_a_gradient_are_counted(loops):
    ddp, optimizer = built(Branches(), find_unused_parameters=True)
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    found = facts(loops)
    assert found["unused"] == 2
    assert found["graph_is_static"] is True
