"""A training with TensorFlow 1's sessions is recognised, and nothing else is."""

from types import SimpleNamespace

import pytest

from kit.child import Watcher
from trainperf.child.tensorflow import hooks


@pytest.mark.parametrize(("updates", "said"), [([], 0), (["Adam"], 1)])
def test_runs_with_updates_are_a_training_and_said_once(updates, said):
    class BaseSession:
        graph = SimpleNamespace(get_collection=lambda name: updates)

        def run(self, fetches):
            return fetches

    watcher = Watcher()
    hooks.watch_sessions(SimpleNamespace(process=watcher), SimpleNamespace(BaseSession=BaseSession))
    assert [BaseSession().run(turn) for turn in range(3)] == [0, 1, 2]
    assert len(watcher.record.of("sessions")) == said
