"""Changes between two calls of a compiled function: told by frames, without TensorFlow."""

import textwrap

import pytest

from trainperf.child.tensorflow import loops
from trainperf.child.tensorflow.loops import Retraces


def step(x, weight=1.0, *, rate=0.1):
    raise AssertionError


def hooked(monkeypatch):
    """What the hook gives to a call of `step`; what stands here is as much ours as the hook."""
    users = loops.frames.is_users
    monkeypatch.setattr(loops.frames, "is_users", lambda name: name != __file__ and users(name))
    monkeypatch.setattr(loops.facts, "users_function", lambda function: (function, False))
    retraces = Retraces()

    def __call__(*args, **kwargs):  # noqa: N807
        return retraces.traced(step, args, kwargs)

    return __call__


@pytest.fixture
def train(users, monkeypatch):
    """A loop of the user's, which returns what was said of each call."""
    called = hooked(monkeypatch)

    def run(source):
        body = textwrap.indent(textwrap.dedent(source), "    ")
        module = users(f"def train(step):\n    said = []\n{body}\n    return said\n")
        return module.train(called)

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


def test_a_number_that_changes_is_named_with_the_call(train):
    (_, said) = train("said += [step('x', 1.0), step('x', 2.0)]")
    assert said["numbers"] == [{"argument": 1, "parameter": "weight", "type": "float"}]
    assert said["where"]["function"] == "train"


def test_a_call_that_the_users_source_did_not_make_is_not_told(train):
    assert train("said += list(map(step, 'xx', [1, 2]))\nsaid += [eval('step(1.0)')]")[-1] is None
