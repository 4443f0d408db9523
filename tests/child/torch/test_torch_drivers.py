"""Loops over real loaders of PyTorch: reopened, replayed, counted in steps."""

from __future__ import annotations

import weakref
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from kit.child import STEP_S, Watcher, handed, phases
from trainperf.child.torch.drivers import TorchDriver
from trainperf.child.torch.loops import TorchLoops

pytestmark = pytest.mark.script

Pair = namedtuple("Pair", "x y")


class Points(Dataset):
    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> Any:
        return torch.full((2,), float(index + 1)), index


class Quiet(TorchLoops):
    """Loops without what is measured beside the three times."""

    def facts(self, driver: Any) -> dict[str, Any]:
        return {}

    def record_facts(self, driver: Any) -> None: ...
    def stages(self, driver: Any, deadline: float) -> None: ...
    def probes(self, driver: Any, deadline: float) -> None: ...


@pytest.fixture
def watcher(monkeypatch) -> Iterator[Watcher]:
    monkeypatch.setattr(TorchDriver, "profile_begins", lambda driver: None)
    made = Watcher()
    yield made
    if made.driver is not None:  # its sampler and its workers are to end with the test
        made.driver.interrupted()
        made.driver.__dict__.clear()


@pytest.fixture
def loops(watcher) -> Quiet:
    return Quiet(watcher)


class Optimizer:
    """An object by which updates are known; stands for an optimizer of PyTorch's."""

    param_groups = ({"params": []},)


def opened(loops: Quiet, loader: Any) -> Any:
    """The batches of an epoch, as the hooks of `torch.py` hand them to the loop."""
    iterator = DataLoader.__iter__(loader)
    persistent = getattr(loader, "persistent_workers", False)
    iterator._trainperf_dataset = weakref.ref(loader) if persistent else loader
    return handed(loops, iterator, type(iterator).__next__, 0.001)


def train(loops: Quiet, loader: Any, use: Any = lambda batch: None, epochs: int = 50) -> list[Any]:
    """A training loop; returns what `use` made of the batches of the resident phase."""
    optimizer, replayed = Optimizer(), []
    for _ in range(epochs):
        for batch in opened(loops, loader):
            result = use(batch)
            if loops.training.driver and loops.training.driver.resident:
                replayed.append(result)
            loops.process.clock.tick(STEP_S)
            loops.stepped(optimizer)
        if loops.process.finished:
            break
    return replayed


def measured(watcher: Watcher) -> list[str]:
    return [one for one in phases(watcher.record) if one in ("real", "resident", "input")]


def all_three(watcher: Watcher) -> bool:
    return watcher.finished and measured(watcher) == ["real", "resident", "input"] * 5


# ------------------------------------------------------------------ loaders, reopened


def test_a_persistent_loader_that_is_evaluated_between_epochs_never_drives(loops, watcher):
    held_out = DataLoader(Points(), batch_size=24, num_workers=1, persistent_workers=True)
    training = DataLoader(Points(), batch_size=8)
    optimizer = Optimizer()
    for _ in range(3):
        for _ in opened(loops, held_out):
            watcher.clock.tick()
        for number, _ in enumerate(opened(loops, training)):
            watcher.clock.tick()
            loops.stepped(optimizer)
            if number == 4:
                break
        assert watcher.driver.loader is training
        assert not watcher.driver._companions


def test_a_loader_is_opened_no_more_often_than_the_script_does(loops, monkeypatch):
    """Each iterator draws from the generators of the process, and has workers of its own."""
    made, get = [], DataLoader._get_iterator
    monkeypatch.setattr(DataLoader, "_get_iterator", lambda self: made.append(0) or get(self))
    loader, optimizer = DataLoader(Points(), batch_size=8), Optimizer()
    for _ in range(3):
        for _, _ in zip(range(5), opened(loops, loader), strict=False):
            loops.process.clock.tick()
            loops.stepped(optimizer)
    assert loops.training.driver is not None
    assert len(made) == 3


# -------------------------------------------------------------------- replays


def spoil(x: Any) -> float:
    """The first number of a tensor, before the loop wrote over it."""
    seen = float(x[0, 0])
    x.mul_(0)
    return seen


@pytest.mark.parametrize(
    ("collate", "tensor_of"),
    [
        (lambda items: torch.stack([x for x, _ in items]), lambda batch: batch),
        (lambda items: Pair(torch.stack([x for x, _ in items]), 0), lambda batch: batch.x),
        (lambda items: {"a": {"x": torch.stack([x for x, _ in items])}}, lambda b: b["a"].pop("x")),
    ],
    ids=["tensor", "namedtuple", "nested"],
)
def test_a_batch_that_the_loop_writes_into_is_replayed_unspoilt(loops, watcher, collate, tensor_of):
    loader = DataLoader(Points(), batch_size=4, collate_fn=collate)
    replayed = train(loops, loader, lambda batch: spoil(tensor_of(batch)))
    assert all_three(watcher)
    assert len(replayed) > 8
    assert 0.0 not in replayed


def test_an_input_whose_gradient_is_asked_for_is_replayed_without_it(loops, watcher):
    def use(batch: Any) -> Any:
        x = batch[0]
        before = (x.requires_grad, x.grad)
        x.requires_grad_()
        x.sum().backward()
        return before

    replayed = train(loops, DataLoader(Points(), batch_size=4), use)
    assert replayed
    assert set(replayed) == {(False, None)}
