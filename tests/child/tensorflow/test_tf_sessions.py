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


@pytest.mark.parametrize(("updates", "said"), [((), 0), (("Adam",), 1)])
def test_runs_with_updates_are_a_training_and_said_once(updates: Any, said: int):
    module, watcher = made(), Watcher()
    hooks.watch_sessions(SimpleNamespace(process=watcher), module)
    session = module.BaseSession(*updates)
    for turn in range(3):
        assert session.run(str(turn)) == str(turn)
    found = watcher.record.of("sessions")
    assert [event["where"]["function"] for event in found] == [
        "test_runs_with_updates_are_a_training_and_said_once"
    ] * said
