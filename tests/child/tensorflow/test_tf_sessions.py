"""A training with TensorFlow 1's sessions is recognised, and nothing else is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kit.child import Watcher
from trainperf.child.tensorflow import hooks


class Graph:
    """A graph that has updates of weights, or none."""

    def __init__(self, *updates: str) -> None:
        self._updates = updates

    def get_collection(self, name: str) -> list[str]:
        assert name == "train_op"
        return list(self._updates)


def made() -> Any:
    class BaseSession:
        def __init__(self, *updates: str) -> None:
            self.graph = Graph(*updates)

        def run(self, fetches: str) -> str:
            return fetches

    return SimpleNamespace(BaseSession=BaseSession)


@pytest.fixture
def watcher() -> Any:
    return Watcher()


def ran(watcher: Any, *updates: str, times: int = 2 * hooks.ENOUGH) -> Any:
    module = made()
    hooks.watch_sessions(SimpleNamespace(training=watcher), module)
    session = module.BaseSession(*updates)
    for turn in range(times):
        assert session.run(str(turn)) == str(turn)
    return watcher.record.of("sessions")


@pytest.mark.parametrize("why", ["no updates", "a few", "a loop is timed"])
def test_other_runs_are_no_training(watcher, why):
    if why == "a loop is timed":
        watcher.driver = object()
    updates = () if why == "no updates" else ("Adam",)
    assert (
        ran(watcher, *updates, times=hooks.ENOUGH - 1 if why == "a few" else 2 * hooks.ENOUGH) == []
    )
    assert not watcher.finished


def test_many_runs_with_updates_are_a_training_and_said_once(watcher: Any) -> None:
    (found,) = ran(watcher, "Adam")
    assert found["where"]["function"] == "ran"
    assert watcher.finished
