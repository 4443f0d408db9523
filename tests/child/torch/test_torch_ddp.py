"""`DistributedDataParallel` as it is seen in a process group of one process."""

from __future__ import annotations

import inspect
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


def test_the_program_finds_the_class_as_it_was(loops):
    kept = built()
    assert inspect.signature(DistributedDataParallel.forward).parameters.keys() == {
        "self",
        "inputs",
        "kwargs",
    }
    assert DistributedDataParallel.__init__.__name__ == "__init__"
    assert not [name for name in vars(kept[0]) if "trainperf" in name]


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


# ----------------------------------------------------------------------- DDP's times


class Logging:
    """A DDP that logs `seconds` for each step that it is asked to time."""

    def __init__(self) -> None:
        self.logger = self
        self.rate = 100
        self.data = {"iteration": 10}

    def _get_ddp_logging_data(self) -> dict[str, int]:
        return self.data

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        self.rate = rate

    def step(self, times: torch_ddp.Times, seconds: int, each_step: bool) -> None:
        """The last step took so long; the next one calls forward."""
        names = "backward_compute_time", "backward_comm_time", "backward_compute_comm_overlap_time"
        if self.rate == 1:
            number = {"iteration": self.data["iteration"] + 1}
            self.data = number | dict.fromkeys(names, seconds * 10**9)
        times.sample(self, each_step)


def test_the_step_in_which_ddp_is_asked_to_time_each_was_timed_from_long_before():
    times, ddp = torch_ddp.Times(), Logging()
    for seconds, each_step in ((1, True), (500, True), (2, True), (3, True), (4, False)):
        ddp.step(times, seconds, each_step)
    assert [compute for compute, _, _ in times.samples] == [2, 3]
    assert ddp.rate == 100


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"backward_compute_time": 5, "backward_comm_time": 5},
        {
            "backward_compute_time": 0,
            "backward_comm_time": 5,
            "backward_compute_comm_overlap_time": 0,
        },
        {
            "backward_compute_time": 5,
            "backward_comm_time": 5,
            "backward_compute_comm_overlap_time": -1,
        },
    ],
)
def test_times_that_ddp_does_not_have_are_no_times(data):
    assert torch_ddp.last(data) is None
