"""Changes between two calls of a compiled function: told by frames, without TensorFlow."""

import textwrap

import pytest

from trainperf.child.tensorflow import retraces
from trainperf.child.tensorflow.retraces import Retraces


class Loops:
    """Calls its function as the hook does."""

    def __init__(self):
        self.retraces = Retraces(Loops.function_called.__code__)

    def hook(self, function):
        def __call__(*args, **kwargs):  # noqa: N807
            return self.function_called(function, args, kwargs)

        return __call__

    def function_called(self, function, args, kwargs):
        return self.retraces.traced()


def step(x, weight=1.0, *, rate=0.1):
    raise AssertionError


def hooked(monkeypatch):
    """What stands here is as much ours as the hook."""
    monkeypatch.setattr(retraces.frames, "is_ours", lambda name: name == __file__)


@pytest.fixture
def train(users, monkeypatch):
    """A loop of the user's, which returns what was said of each call."""
    monkeypatch.setattr(retraces, "users_function", lambda function: (function, False))
    hooked(monkeypatch)

    def run(source, step=step):
        body = textwrap.indent(textwrap.dedent(source), "    ")
        module = users(f"def train(step):\n    said = []\n{body}\n    return said\n")
        return module.train(Loops().hook(step))

    return run


@pytest.mark.parametrize(
    "calls",
    [
        "said += [step('x', 1.0)]",
        "said += [step('x', 1.0), step('x', 1.0)]",
        "said += [step('x', 1.0), step('y', 1.0)]",
        "said += [step('x', True), step('x', False)]",
        "said += [step('x', None), step('x', 1.0)]",
        "said += [step('x', 'a'), step('x', 'b')]",
        "said += [step(('x', 1.0)), step(('x', 2.0))]",
    ],
)
def test_where_no_number_changes_nothing_is_said(train, calls):
    assert not any(train(calls))


def test_a_call_that_the_users_source_did_not_make_is_not_told(monkeypatch):
    hooked(monkeypatch)
    called = Loops().hook(step)
    by_library = "said = [step('x', 1), step('x', 2)]"
    namespace = {"step": called}
    exec(compile(by_library, "<string>", "exec"), namespace)
    assert namespace["said"] == [None, None]
